"""Summaries: what the model is shown, what is kept, what goes wrong; in real runs with a scripted model server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from silva.cli.trees import app as trees
from silva.envs.protocol import FRESH
from silva.errors import UsageError
from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.config import SummaryConfig
from silva.rollout.run import Hooks
from silva.rollout.seen import seen_at
from silva.rollout.summary import asked_of, context, cut, in_force, made_at, tokens, told
from silva.tree import Author, Node, Tree, Usage, assistant, user

ADDER = """
import json, pathlib, time

HERE = pathlib.Path(__file__).parent

def reply(request):
    messages = [{"role": m["role"], "content": m["content"]} for m in request["messages"]]
    with (HERE / "seen.jsonl").open("a") as file:
        file.write(json.dumps(messages) + "\\n")
    how = (HERE / "how.txt").read_text()
    texts = [str(m["content"] or "") for m in messages]
    if "about to be replaced" in texts[-1]:
        asked = (HERE / "seen.jsonl").read_text().count("about to be replaced")
        if how == "words" and asked == 1:
            from silva.guide import Mailbox
            from silva.guide.mailroom import folder_of
            from silva.guide.word import word
            Mailbox(folder_of(str(HERE / "lake")), "r").say(word("r", "say", "ann", time.time(), text="say 7"))
        if how == "empty" or (how == "empty once" and asked == 1):
            return ""
        return "x" * 5000 if how == "long" else "Known: one was added."
    if any("say 7" in text for text in texts):
        return "7"
    call = {"name": "add", "arguments": {"number": 1}, "id": f"c{len(texts)}"}
    return {"text": "The total is not there yet, so I add one more to it.", "tool_calls": [call]}
"""


class Played:
    """A run that was played, and what its model saw."""

    def __init__(self, folder: Path) -> None:
        with Lake.open(folder / "lake", mode="read") as lake:
            (self.trajectory,) = [each for each in lake.trajectories(run_id="r") if not each.superseded]
            self.walk: list[Node] = list(lake.walk(self.trajectory))
            self.nodes: list[Node] = lake.nodes(run_id="r")
            self.supervisions = lake.supervisions(run_id="r")
        self.summaries = made_at(self.nodes)
        self.seen = [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]


def settings(folder: Path, url: str, **fields: Any) -> RolloutConfig:
    given = {
        "run": "r",
        "env": ("arithmetic",),
        "lake": str(folder / "lake"),
        "model": f"{url}?token_ids=true#scripted",
        "tasks": {"split": "chain", "limit": 1},
        "budget": {"turns": 10},
        "retries": 0,
        "summary": {"at": 700, "max_tokens": 200},
        **fields,
    }
    return RolloutConfig.model_validate(given)


async def play(folder: Path, how: str = "", hooks: Hooks | None = None, resume: bool = False, **fields: Any) -> Played:
    (folder / "adder.py").write_text(ADDER)
    (folder / "how.txt").write_text(how)
    async with ScriptedServer(Script(function="adder.py:reply", folder=str(folder))) as server:
        await run_rollout(settings(folder, server.url, **fields), resume=resume, hooks=hooks)
    return Played(folder)


def shown(messages: Any) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def heard(messages: Any) -> list[tuple[str, str]]:
    return [(message["role"], message["content"] or "") for message in messages]


async def test_a_long_context_gives_way_to_summaries_and_every_context_can_be_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = await play(tmp_path)
    walk, made = played.walk, played.summaries
    assert len(made) >= 2 and played.trajectory.turns == 10
    assert played.trajectory.attributes["summaries"] == {"nodes": [node.id for node in made.values()]}
    contexts: list[Any] = []
    for place, node in enumerate(walk):
        if node.author is Author.POLICY:
            before = walk[:place]
            if before[-1].id in made:
                contexts.append(asked_of(walk, made, made[before[-1].id]))
            contexts.append(context(before, in_force(before, made)))
    assert [shown(each) for each in contexts] == [heard(each) for each in played.seen]
    tree = Tree(played.nodes)
    seen = [seen_at(tree, played.trajectory, turn) for turn in range(1, 11)]
    again = [each for one in seen for each in (*([one.asked] if one.asked else []), one.messages)]
    assert [shown(each) for each in again] == [heard(each) for each in played.seen]
    assert all(one.ids is not None and one.tools for one in seen)
    with pytest.raises(UsageError, match="has 10 turns, there is no turn 11"):
        seen_at(tree, played.trajectory, 11)
    words = ["show", played.trajectory.id, "--lake", str(tmp_path / "lake"), "--context", "10"]
    assert not trees(words, standalone_mode=False)
    assert "a summary stands in the place of turns 1 to" in capsys.readouterr().out
    for node in made.values():
        assert node.parent_id is not None
        assert {child.author for child in tree.children(node.parent_id)} == {Author.SUMMARISER, Author.POLICY}
        assert told(node).first == 1 and not tree.children(node.id)


def test_what_is_kept_begins_with_an_action_and_words_before_it_stay_as_they_were_said() -> None:
    walk = made_walk("E", "P", "E", "W", "P", "E")
    assert cut(walk, {}, keep=0.5) == (3, 1, 1)
    assert cut(walk, {}, keep=0.0) == (6, 1, 2)
    assert cut(walk[:1], {}, keep=0.5) is None
    assert cut(walk[:3], {}, keep=0.9) == (3, 1, 1)


def test_another_conversation_is_all_that_is_seen_from_where_the_environment_begins_it() -> None:
    walk = made_walk("E", "P", "E", "E", "P", "E", "P")
    walk[3] = msgspec.structs.replace(walk[3], attributes={FRESH: True})
    messages = [node.message for node in walk]
    assert context(walk[:2], None) == tuple(messages[:2]), "before it, all"
    assert context(walk, None) == tuple(messages[2:]), "behind it, from the first message behind the action"
    assert cut(walk, {}, keep=0.5) == (6, 2, 2), "what a summary replaces is of that conversation, too"


def test_a_context_counts_what_was_reported_and_what_was_said_since() -> None:
    walk = made_walk("E", "P", "E")
    assert tokens(walk[:1], {}, None) == 0
    assert tokens(walk[:2], {}, None) == 30, "prompt and completion"
    assert tokens(walk[:2], {}, 12) == 12, "the ids themselves, where they are known"
    assert tokens(walk, {}, 12) == 18, "two messages have 12 ids, so has half of them 6"


async def test_an_empty_summary_is_asked_for_once_more(tmp_path: Path) -> None:
    played = await play(tmp_path, "empty once", budget={"turns": 7})
    made = sorted(played.summaries.values(), key=lambda node: told(node).last)
    assert (told(made[0]).attempts, told(made[0]).failed, made[0].message.text) == (2, "", "Known: one was added.")
    usage = [each.usage.prompt_tokens for each in [*played.walk, *made]]
    assert played.trajectory.usage.prompt_tokens == sum(usage), "what the lost attempt cost is counted"


@pytest.mark.parametrize(("how", "why"), [("empty", "was empty"), ("long", "no fewer than")])
async def test_a_summary_that_cannot_be_had_is_said_and_the_episode_goes_on_whole(
    tmp_path: Path, how: str, why: str
) -> None:
    played = await play(tmp_path, how)
    (node,) = played.summaries.values()
    assert why in told(node).failed and told(node).attempts == 2
    assert why in played.trajectory.attributes["summaries"]["failed"] and played.trajectory.turns == 10
    assert heard(played.seen[-1]) == shown(each.message for each in played.walk[:-2])
    assert sum("about to be replaced" in str(each[-1]) for each in played.seen) == 2


async def test_words_that_come_while_a_summary_is_made_are_heard_at_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    hooks = Hooks(guidance=Mailroom.of(str(tmp_path / "lake"), "r"))
    played = await play(tmp_path, "words", hooks=hooks)
    at = next(iter(played.summaries))
    place = next(place for place, node in enumerate(played.walk) if node.id == at)
    assert [node.author for node in played.walk[place + 1 :]] == [Author.PERSON, Author.POLICY]
    assert played.walk[-1].message.text == "7"
    assert "say 7" in heard(played.seen[-1])[-1][1] and len(played.seen[-1]) < len(played.walk)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "made", "behind", "turns later"])
async def test_a_run_killed_around_a_summary_goes_on_as_if_it_had_not_been(tmp_path: Path, moment: str) -> None:
    whole = await play(tmp_path, run="r")
    first = min(whole.summaries.values(), key=lambda node: told(node).last)
    at = next(place for place, node in enumerate(whole.walk) if node.id == told(first).at)
    upto = {"before": at, "made": at, "behind": at + 2, "turns later": at + 5}[moment]
    passed = {node.id for node in whole.walk[: upto - 1]}
    sums = [node for node in whole.summaries.values() if told(node).at in passed or node is first]
    kept = whole.walk[:upto] + ([] if moment == "before" else sums)
    again = tmp_path / "again"
    again.mkdir()
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        (run,), tasks = lake.runs(), [task for task in lake.tasks() if task.id == whole.trajectory.task_id]
    async with Lake.open(again / "lake") as lake:
        await lake.append([msgspec.structs.replace(run, status="running"), *tasks, *kept])
    resumed = await play(again, resume=True)
    assert [node.id for node in resumed.walk] == [node.id for node in whole.walk]
    assert {node.id for node in resumed.nodes} == {node.id for node in whole.nodes}
    assert resumed.trajectory.usage.prompt_tokens == whole.trajectory.usage.prompt_tokens
    assert len(resumed.seen) == len(whole.seen) - sum(node.author is not Author.ENVIRONMENT for node in kept)


def test_thresholds_are_by_model_and_a_program_has_none() -> None:
    by_model = {"http*#big": 100, "local": 20}
    given = {"env": "arithmetic", "summary": {"at": by_model}}
    assert RolloutConfig(**given, model="http://h:1/v1#big").summary_at == 100
    assert RolloutConfig(**given, model="openai:x").summary_at is None
    assert RolloutConfig(**given, policy="expert").summary_at is None
    plain = RolloutConfig(env=("arithmetic",), model="local")
    assert RolloutConfig(**given, model="local").growth_digest() != plain.growth_digest()
    assert (
        RolloutConfig(**given, model="openai:x").growth_digest()
        == RolloutConfig(env=("arithmetic",), model="openai:x").growth_digest()
    )
    with pytest.raises(ValidationError, match="a program keeps its own conversation"):
        RolloutConfig(**given, agent="program: x")
    with pytest.raises(ValidationError, match="at least 1"):
        SummaryConfig(at=0)


def made_walk(*kinds: str) -> list[Node]:
    """Nodes of ten characters each: of the environment, the policy, a person's words."""
    authors = {"E": Author.ENVIRONMENT, "P": Author.POLICY, "W": Author.PERSON}
    walk: list[Node] = []
    for depth, kind in enumerate(kinds):
        message = (assistant if kind == "P" else user)(f"{kind} number {depth}"[:10].ljust(10, "."))
        walk.append(
            Node(
                id=f"n{depth}",
                run_id="r",
                tree_id="t",
                parent_id=walk[-1].id if walk else None,
                depth=depth,
                author=authors[kind],
                message=message,
                usage=Usage(prompt_tokens=20, completion_tokens=10) if kind == "P" else Usage(),
                attributes={"words": ["w"]} if kind == "W" else {},
            )
        )
    return walk
