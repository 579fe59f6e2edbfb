"""Turns, tokens and costs that several imported trajectories share are counted once, however they came in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from silva.lake import Lake
from silva.lake.importing import take_in
from silva.report.scaling import readings
from silva.report.summary import Summary, summarise
from silva.tree import Author, Node, assistant, tool_result, user
from silva.tree.copies import REPEATS


def line(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-05-01T10:00:00.000Z", "type": kind, "payload": payload}


def turn(asked: str, said: str, tokens: int) -> list[dict[str, Any]]:
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked}]}
    say = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
    count = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": tokens, "output_tokens": 1}}}
    return [line("response_item", ask), line("response_item", say), line("event_msg", count)]


PARENT = [line("session_meta", {"id": "A"}), *turn("One.", "1", 1000), *turn("Two.", "2", 1500)]
FORK = [line("session_meta", {"id": "B", "forked_from_id": "A"}), *PARENT, *turn("Three.", "3", 3000)]


def summed(tmp_path: Path, *sessions: list[dict[str, Any]]) -> Summary:
    for number, session in enumerate(sessions):
        file = tmp_path / f"session-{number}.jsonl"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in session))
        asyncio.run(take_in(str(tmp_path / "lake"), file, "codex", "r"))
    with Lake.open(tmp_path / "lake", "read") as lake:
        return summarise(lake.trajectories(run_id="r"))


def test_the_fork_of_a_session_adds_its_own_turns_alone(tmp_path: Path) -> None:
    found = summed(tmp_path, PARENT, FORK)
    assert found.attempts == 2 and found.turns.mean == 2.5
    assert found.turns.total == 3 and found.prompt_tokens.total == found.spent.prompt_tokens == 5500


def test_whichever_of_the_two_came_first(tmp_path: Path) -> None:
    found = summed(tmp_path, FORK, PARENT)
    assert found.turns.total == 3 and found.spent.prompt_tokens == 5500


def node(number: int, author: Author, message: Any, **attributes: Any) -> Node:
    parent = str(number - 1) if number else None
    return Node(
        id=str(number),
        run_id="r",
        tree_id="t",
        parent_id=parent,
        depth=number,
        author=author,
        message=message,
        attributes=attributes,
    )


def test_a_copy_of_a_turn_counts_as_that_turn() -> None:
    score = tool_result("c", "score 0.5 of 1; it can be asked for 2 more times", "evaluate")
    walk = [
        node(0, Author.ENVIRONMENT, user("Do it.")),
        node(1, Author.ENVIRONMENT, assistant("first"), **{REPEATS: "sampled"}),
        node(2, Author.ENVIRONMENT, user("Go on.")),
        node(3, Author.POLICY, assistant("second")),
        node(4, Author.ENVIRONMENT, score),
    ]
    (told,) = readings(walk, 0.0)
    assert (told.turn, told.score) == (2, 0.5)
