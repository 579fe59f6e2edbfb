"""Sessions that are written again, resumed, forked or printed as a stream: each turn is once, and was billed once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from silva.tree import Boundary, Status
from silva.tree.formats import Bundle, detect, merged, read

Line = dict[str, Any]
USAGE = {"input_tokens": 100, "output_tokens": 10}


def claude(session: str, kind: str, uuid: str, parent: str | None, message: Line) -> Line:
    said = {"parentUuid": parent, "isSidechain": False, "sessionId": session, "type": kind, "uuid": uuid}
    return {**said, "message": message, "timestamp": "2026-05-01T10:00:00.000Z"}


def user(session: str, uuid: str, parent: str | None, text: str) -> Line:
    return claude(session, "user", uuid, parent, {"role": "user", "content": text})


def reply(session: str, uuid: str, parent: str, own: str, *blocks: Line) -> Line:
    message = {"id": own, "role": "assistant", "model": "m", "content": list(blocks), "usage": USAGE}
    return claude(session, "assistant", uuid, parent, message)


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def grown(name: str, *given: Line) -> list[Bundle]:
    return merged(read(name, [json.dumps(line) for line in given], run="r"))


def told(bundle: Bundle) -> list[tuple[int, str]]:
    return [(node.depth, node.message.text) for node in bundle.nodes]


def test_a_history_written_again_with_links_of_its_own_is_the_same_turns() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    first = [
        user("s", "u1", None, "Peru?"),
        reply("s", "a1", "u1", "m1", text("Lima.")),
        reply("s", "a2", "a1", "m1", call),
    ]
    again = [user("s", "u1b", None, "Peru?"), reply("s", "a1b", "u1b", "m1", text("Lima."))]
    again += [reply("s", "a2b", "a1b", "m1", call), user("s", "u2", "a2b", "Chile?")]
    (bundle,) = grown("claude-code", *first, *again, reply("s", "a3", "u2", "m2", text("Santiago.")))
    assert told(bundle) == [(0, "Peru?"), (1, "Lima."), (2, "Chile?"), (3, "Santiago.")]
    assert len(bundle.nodes[1].message.tool_calls) == 1
    (trajectory,) = bundle.trajectories
    assert trajectory.usage.prompt_tokens == 200


def test_a_session_that_goes_on_under_another_name_is_one_conversation() -> None:
    first = [user("A", "u1", None, "Peru?"), reply("A", "a1", "u1", "m1", text("Lima."))]
    more = [user("B", "u2", "a1", "Chile?"), reply("B", "a2", "u2", "m2", text("Santiago."))]
    (before,), (after,) = grown("claude-code", *first), grown("claude-code", *first, *more)
    assert told(after) == [(0, "Peru?"), (1, "Lima."), (2, "Chile?"), (3, "Santiago.")]
    assert {node.id for node in before.nodes} < {node.id for node in after.nodes}
    assert after.trajectories[0].attributes["claude-code"]["session"] == "B"


def test_a_retry_stays_a_branch_and_the_prompt_they_share_is_billed_once() -> None:
    rows = [user("s", "u1", None, "Peru?"), reply("s", "a1", "u1", "m1", text("Lima.")), user("s", "u2", "a1", "And?")]
    rows += [
        reply("s", "a2", "u2", "m2", text("one")),
        user("s", "u3", "a1", "And?"),
        reply("s", "a3", "u3", "m3", text("two")),
    ]
    (bundle,) = grown("claude-code", *rows)
    assert told(bundle) == [(0, "Peru?"), (1, "Lima."), (2, "And?"), (3, "one"), (3, "two")]
    assert [each.usage.prompt_tokens for each in bundle.trajectories] == [200, 100]


def codex(kind: str, payload: Line) -> Line:
    return {"timestamp": "2026-05-01T10:00:00.000Z", "type": kind, "payload": payload}


def codex_turn(asked: str, said: str, tokens: int) -> list[Line]:
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked}]}
    say = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
    count = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": tokens, "output_tokens": 1}}}
    return [codex("response_item", ask), codex("response_item", say), codex("event_msg", count)]


def test_a_fork_of_codex_shares_the_turns_it_repeats() -> None:
    parent = [codex("session_meta", {"id": "A"}), *codex_turn("One.", "1", 1000), *codex_turn("Two.", "2", 1500)]
    fork = [codex("session_meta", {"id": "B", "forked_from_id": "A"}), *parent, *codex_turn("Three.", "3", 3000)]
    (before,), (after,) = grown("codex", *parent), grown("codex", *fork)
    shared = {node.id for node in before.nodes}
    assert shared < {node.id for node in after.nodes}
    assert before.trajectories[0].id != after.trajectories[0].id
    assert before.trajectories[0].index != after.trajectories[0].index
    (whole,) = merged([before, after])
    assert sum(node.usage.prompt_tokens for node in whole.nodes) == 5500


def streamed(kind: str, message: Line | None = None, agent: str | None = None, **more: Any) -> Line:
    row = {"type": kind, "session_id": "s", "parent_tool_use_id": agent, **more}
    return row if message is None else {**row, "message": message}


def said(own: str, *blocks: Line) -> Line:
    return {"id": own, "role": "assistant", "model": "m", "content": list(blocks), "usage": USAGE}


def test_what_claude_code_prints_is_its_session() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look"}}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "green"}]}
    rows = [
        streamed("system", subtype="init", tools=["Task"]),
        streamed("assistant", said("m1", call)),
        streamed("user", {"role": "user", "content": "look"}, agent="t1"),
        streamed("assistant", said("m2", text("it is green")), agent="t1"),
        streamed("user", answer),
        streamed("assistant", said("m3", text("green"))),
        streamed("result", subtype="success", is_error=False, total_cost_usd=0.5),
    ]
    assert detect("out.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()) == "claude-code"
    (bundle,) = grown("claude-code", *rows)
    main = next(each for each in bundle.trajectories if each.attributes["claude-code"]["branch"] == "main")
    assert [node.message.text for node in bundle.walk(main)] == ["", "green", "green"]
    assert (main.usage.usd, main.outcome.status) == (0.5, Status.COMPLETED)
    (other,) = [each for each in bundle.trajectories if each is not main]
    assert other.attributes["claude-code"]["caller"] == "t1"


@pytest.mark.parametrize(
    ("subtype", "status"), [("error_max_turns", Status.TRUNCATED), ("error_during_execution", Status.FAILED)]
)
def test_how_a_printed_session_ended_is_its_outcome(subtype: str, status: Status) -> None:
    (bundle,) = grown(
        "claude-code", streamed("assistant", said("m1", text("x"))), streamed("result", subtype=subtype, is_error=True)
    )
    assert bundle.trajectories[0].outcome.status is status


def test_what_codex_prints_is_its_session() -> None:
    ran = {"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": "a.txt", "exit_code": 1}
    rows: list[Line] = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "look first"}},
        {"type": "item.started", "item": {**ran, "aggregated_output": ""}},
        {"type": "item.completed", "item": ran},
        {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "one file"}},
        {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}},
        {"type": "item.started", "item": {"id": "i3", "type": "command_execution", "command": "rm a.txt"}},
        {"type": "turn.failed", "error": {"message": "the connection broke"}},
    ]
    assert detect("out.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()) == "codex"
    (bundle,) = grown("codex", *rows)
    walk = bundle.walk(bundle.trajectories[0])
    assert [node.message.role for node in walk] == ["assistant", "tool", "assistant", "assistant"]
    assert walk[0].message.thinking == "look first" and walk[0].message.tool_calls[0].parsed() == {"command": "ls"}
    assert walk[1].message.text == "a.txt" and walk[1].attributes["codex"] == {"exit_code": 1}
    assert walk[2].message.text == "one file" and walk[2].usage.cached_tokens == 4
    # A command that was begun and never ended is told as it stood.
    assert walk[3].message.tool_calls[0].id == "i3"
    failure = bundle.trajectories[0].outcome.failure
    assert failure is not None and (failure.boundary, failure.message) == (Boundary.AGENT, "the connection broke")
