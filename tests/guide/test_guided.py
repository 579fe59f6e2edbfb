"""People talking to running agents: real runs in processes of their own, a real model server, words from the shell."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guiding import said_by
from guiding import settings as chain

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.guide import Mailbox
from silva.guide.mailroom import Mailroom
from silva.guide.word import word
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.tree import Author, Node, Run, Trajectory

TALKER = '''
import re

def reply(request):
    """Adds 1 again and again; does what a person says; says the total when told to end."""
    messages = request["messages"]
    texts = [m["content"] for m in messages if m["role"] == "user"]
    if any("say 7" in (text or "") for text in texts):
        return "7"
    if any("forbids" in (m.get("content") or "") for m in messages if m["role"] == "tool"):
        return "0"
    made = sum(m["role"] == "tool" for m in messages)
    return {"tool_calls": [{"name": "add", "arguments": {"number": made}, "id": f"c{made}"}]}
'''


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    (tmp_path / "talker.py").write_text(TALKER)
    return tmp_path


def settings(folder: Path, url: str, **fields: Any) -> RolloutConfig:
    """A run of one chain whose environment has a process of its own."""
    return chain(folder, url, **{"hosts": {}, **fields})


class Timely:
    """A mailroom into which words come at their time: before the engine listens for the n-th time, from 0."""

    def __init__(self, mailroom: Mailroom, words: tuple[tuple[int, str, dict[str, Any]], ...]) -> None:
        self._mailroom, self._words, self._listened = mailroom, words, 0

    def hear(self, trajectory_id: str, task_id: str, formerly: Any = ()) -> Any:
        for at, kind, more in self._words:
            if at == self._listened:
                self._mailroom.mailbox.say(word("r", kind, "ann", time.time(), **more))
        self._listened += 1
        return self._mailroom.hear(trajectory_id, task_id, formerly)

    def recorded(self, id: str) -> bool:
        return self._mailroom.recorded(id)

    def tell(self, kind: str, **facts: Any) -> None:
        self._mailroom.tell(kind, **facts)


async def grown(
    folder: Path, *words: tuple[int, str, dict[str, Any]], **fields: Any
) -> tuple[Trajectory, list[Node], list[Any]]:
    """One episode to which things are said at their time; its record, its walk, the supervision of its run."""
    script = Script(function="talker.py:reply", folder=str(folder))
    async with ScriptedServer(script) as server:
        config = settings(folder, server.url, **fields)
        guidance = Timely(Mailroom.of(config.lake, "r"), words)
        result = await run_rollout(config, hooks=Hooks(guidance=guidance))
    (trajectory,) = result.trajectories
    with Lake.open(config.lake, mode="read") as lake:
        return trajectory, list(lake.walk(trajectory)), lake.supervisions(run_id="r")


async def test_words_are_heard_before_the_next_turn_as_a_node_of_their_own(told: Path) -> None:
    first, second = {"text": "you are doing well"}, {"text": "now say 7"}
    words = (0, "say", first), (3, "say", second), (3, "say", {"text": "ok?"})
    trajectory, walk, given = await grown(told, *words)
    assert walk[2].author is Author.PERSON and "you are doing well" in walk[2].message.text
    assert "ann, a person" in walk[2].message.text
    both = walk[-2]
    assert both.author is Author.PERSON and both.message.role == "user"
    assert both.message.text.index("now say 7") < both.message.text.index("ok?"), "concatenated, in order"
    assert walk[-1].message.text == "7" and trajectory.turns == 4
    notes = {each.reason: each for each in given}
    assert set(notes) == {"you are doing well", "now say 7", "ok?"}
    assert notes["now say 7"].node_id == both.id and notes["now say 7"].by == "ann"
    assert all(each.source == "person" and each.verdict == "note" and each.at for each in given)


async def test_a_pause_lasts_until_it_is_taken_back_and_costs_no_deadline(told: Path) -> None:
    deadlines = {"deadlines": {"episode": 3.0}}
    words = (0, "pause", {"why": "lunch"}), (35, "resume", {}), (36, "say", {"text": "say 7"})
    trajectory, walk, given = await grown(told, *words, **deadlines)
    assert walk[-1].message.text == "7" and trajectory.outcome.failure is None
    assert trajectory.finished - trajectory.started > 2.5
    assert [each.attributes["kind"] for each in given] == ["pause", "resume", "say"]
    assert given[0].attributes["why"] == "lunch"


async def test_a_stop_ends_the_episode_where_it_stands(told: Path) -> None:
    trajectory, walk, given = await grown(told, (2, "stop", {"why": "enough"}))
    assert trajectory.outcome.status == "truncated" and trajectory.turns == 2
    assert trajectory.attributes["stopped"] == {"by": "ann", "why": "enough"}
    assert walk[-1].author is not Author.PERSON and [each.attributes["kind"] for each in given] == ["stop"]


async def test_what_is_forbidden_is_not_done_and_the_agent_is_told(told: Path) -> None:
    words = (0, "forbid", {"pattern": r'add .*"number": ?2', "why": "no twos"}), (0, "good", {"turn": 0})
    _, walk, given = await grown(told, *words)
    refused = [node for node in walk if "refused" in node.attributes]
    assert len(refused) == 1 and refused[0].message.tool_calls[0].parsed() == {"number": 2}
    answer = walk[walk.index(refused[0]) + 1]
    assert answer.author is Author.PERSON and "ann" in answer.message.text and "no twos" in answer.message.text
    assert answer.message.role == "tool" and answer.message.tool_call_id == refused[0].message.tool_calls[0].id
    assert walk[-1].message.text == "0"
    masked = [each for each in given if each.verdict == "mask"]
    assert [each.node_id for each in masked] == [refused[0].id]
    from silva.rollout.replay import replay

    env = Repeating([node for node in walk if node.author is Author.ENVIRONMENT])
    done = await replay(env, None, 0, walk)  # pyright: ignore[reportArgumentType]
    assert done.divergence is None and env.steps == 3, "the refused action is not taken again"


class Repeating:
    """An environment that says again what it said."""

    def __init__(self, nodes: list[Node]) -> None:
        self._opening = [node for node in nodes if not node.slot]
        self._rest = [node for node in nodes if node.slot]
        self._tools = nodes[0].tools
        self.steps = 0

    async def reset(self, task: object, seed: int) -> Any:
        from silva.envs.protocol import Observation

        return Observation(messages=tuple(node.message for node in self._opening), tools=self._tools)

    async def step(self, action: object) -> Any:
        from silva.envs.protocol import Observation

        self.steps += 1
        if not self._rest:
            return Observation(done=True)
        node = self._rest.pop(0)
        return Observation(
            messages=(node.message,), reward=node.reward, done=not self._rest and node.reward is not None
        )


async def test_praise_and_blame_are_labels_on_turns(told: Path) -> None:
    words = (2, "bad", {"turn": 1, "why": "wrong number"}), (2, "good", {}), (3, "say", {"text": "say 7"})
    _, walk, given = await grown(told, *words)
    actions = [node.id for node in walk if node.author is Author.POLICY]
    bad = next(each for each in given if each.verdict == "bad")
    assert bad.node_id == actions[0] and bad.reason == "wrong number"
    good = next(each for each in given if each.verdict == "good")
    assert good.node_id == actions[1]


async def test_words_for_one_of_two_reach_only_that_one(told: Path) -> None:
    script = Script(function="talker.py:reply", folder=str(told), latency=0.1)
    async with ScriptedServer(script) as server:
        config = settings(told, server.url, tasks={"split": "chain", "limit": 2})
        mailroom = Mailroom.of(config.lake, "r")
        mailroom.mailbox.say(word("r", "say", "ann", 1.0, to="arithmetic/chain/1", text="say 7"))
        result = await run_rollout(config, hooks=Hooks(guidance=mailroom))
    turns = {each.task_id: each.turns for each in result.trajectories}
    assert turns["arithmetic/chain/1"] == 1 and turns["arithmetic/chain/0"] > 1


def wait_for(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.05)


@pytest.mark.slow
async def test_a_killed_run_hears_again_what_it_had_not_kept_and_nothing_twice(told: Path) -> None:
    script = Script(function="talker.py:reply", folder=str(told), latency=0.4)
    async with ScriptedServer(script) as server:
        config = told / "r.json"
        config.write_text(settings(told, server.url).model_dump_json(exclude_unset=True))
        command = [sys.executable, "-m", "silva", "rollout", "-c", str(config)]
        shell = dict(os.environ, SILVA_LAKE=str(told / "lake"))

        def start(*more: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*command, *more], env=shell, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

        def guide(*words: str) -> int:
            return silva(["guide", *words, "--lake", str(told / "lake"), "--by", "ann"])

        def turns() -> int:
            with Lake.open(told / "lake", mode="read") as lake:
                return sum(node.author is Author.POLICY for node in lake.nodes(run_id="r"))

        running = start()
        await asyncio.to_thread(wait_for, lambda: (told / "lake" / "lake.json").exists())
        await asyncio.to_thread(wait_for, lambda: turns() >= 1)
        assert guide("say", "r", "you are doing well") == Exit.OK
        assert guide("forbid", "r", "number.: 9") == Exit.OK
        before = turns()
        await asyncio.to_thread(wait_for, lambda: turns() >= before + 2)
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert guide("say", "r", "say 7") == Exit.OK, "nobody runs, and it is kept"
        assert await asyncio.to_thread(start("--resume").wait, 60) == 0
        with Lake.open(told / "lake", mode="read") as lake:
            (trajectory,) = lake.trajectories(run_id="r")
            walk = list(lake.walk(trajectory))
            given = lake.supervisions(run_id="r")
        people = said_by(Author.PERSON, walk)
        assert len(people) == 2 and "doing well" in people[0] and "say 7" in people[1]
        assert walk[-1].message.text == "7"
        assert sorted(each.attributes["kind"] for each in given) == ["forbid", "say", "say"]
        assert guide("say", "r", "too late") == Exit.USAGE
        with pytest.raises(Exception, match="has ended"):
            Mailbox(Mailroom.of(str(told / "lake"), "r").mailbox.path.parent, "r").say(
                word("r", "say", "ann", 1.0, text="x")
            )


def test_what_cannot_be_said_is_one_line(told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(run_rollout(settings(told, "http://unused", policy="expert", model="local")))
    lake = ["--lake", str(told / "lake")]
    for words, expected in (
        (["say", "other", "hello"], "has no run 'other'"),
        (["say", "r", "hello"], "run r has ended"),
    ):
        assert silva(["guide", *words, *lake]) == Exit.USAGE
        err = capsys.readouterr().err
        assert expected in err and len(err.splitlines()) == 1
    assert silva(["guide", "list", "r", *lake, "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == []


def test_a_run_that_is_being_started_is_waited_for(
    told: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, words = str(told / "lake"), ["guide", "say", "soon", "hello", "--lake", str(told / "lake")]
    with Lake.open(lake) as opened:
        later = threading.Timer(1.0, lambda: opened.append_sync([Run(id="soon", status="running")]))
        later.start()
        assert silva(words) == Exit.OK
        later.join()
        assert "said to run soon: say" in capsys.readouterr().out
        monkeypatch.setattr("silva.cli.guide._STARTING_SECONDS", 0.5)
        assert silva(["guide", "say", "never", *words[3:]]) == Exit.USAGE
        err = capsys.readouterr().err
        assert (
            "somebody writes there, and has not begun run 'never': say it again" in err and len(err.splitlines()) == 1
        )
