"""A terminal at a run: turns are shown as they are kept, lines are said, wrong ones answered; a pipe will do."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guiding import asked, settings, speaker

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.guide import waiting, words
from silva.guide.event import Event, Events
from silva.guide.follow import Follow, in_words
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.tree import Author, Message, Node, Run, Task, assistant, call, node_id, trajectory_id, tree_id, user

TREE = tree_id("r", "e/1")
LIVE = trajectory_id("r", "e/1", 0, 0)


def node(parent: Node | None, author: Author, message: Message, slot: str, at: float) -> Node:
    above = parent.id if parent else None
    return Node(
        id=node_id(TREE, above, author, message, None, slot),
        run_id="r",
        tree_id=TREE,
        parent_id=above,
        depth=parent.depth + 1 if parent else 0,
        author=author,
        message=message,
        slot=slot,
        started=at,
    )


@pytest.fixture
def lake(home: Path) -> Path:
    """A run under way: an opening, two turns."""
    opening = node(None, Author.ENVIRONMENT, user("do it\x1b[31m"), "", 1.0)
    first = node(opening, Author.POLICY, assistant("", call("look", {"at": "<script>"})), "0.0", 2.0)
    answer = node(first, Author.ENVIRONMENT, user("a door"), "0.0", 3.0)
    second = node(answer, Author.PERSON, assistant("open it"), "0.0", 4.0)
    with Lake.open(home / "lake") as opened:
        run = Run(id="r", envs=("e",), started=1.0, status="running")
        opened.append_sync([run, Task(id="e/1", env="e"), opening, first, answer, second])
    return home / "lake"


def attached(
    lake: Path, lines: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *more: str
) -> tuple[int, list[str], list[str]]:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    code = silva(["guide", "attach", "r", "--lake", str(lake), "--by", "ann", *more])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


def test_turns_are_shown_and_lines_are_said(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Events(folder_of(str(lake)), "r")
    facts = {"at": 1.0, "run_id": "r", "trajectory_id": LIVE, "task_id": "e/1", "turn": 2}
    room.tell(Event(kind="waiting", node_id="n1", action="rm all", reasons=("delete",), **facts))
    lines = "mind the gap\n\n/back 1 look again\n/approve fine\n/good 1\n/to\n/help\n/quit\nnot said\n"
    code, out, err = attached(lake, lines, capsys, monkeypatch)
    assert code == Exit.OK and err == []
    assert out[0] == "  1 environment: do it<U+001B>[31m", "what a terminal would obey is shown by its number"
    assert out[1].startswith("  1 0.0 turn 1 policy: look(") and "<script>" in out[1]
    assert out[2:4] == ["  1 0.0 turn 1 environment: a door", "  1 0.0 turn 2 a person takes: open it"]
    assert out[4] == "? turn 2 of e/1 waits for approval (delete): rm all"
    said = words(lake, "r")
    assert [(each.kind, each.to, each.turn) for each in said] == [
        ("say", "*", 0),
        ("back", LIVE, 1),
        ("approve", "*", 0),
        ("good", LIVE, 1),
    ]
    assert said[1].text == "look again" and said[2].node == "n1" and all(each.by == "ann" for each in said)
    assert f"  {LIVE[:12]} e/1" in out


def test_a_wrong_line_is_answered_and_the_rest_is_said(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = attached(lake, "/shout\n/edit {broken\n/reject\nhello\n", capsys, monkeypatch, "--tail", "0")
    assert code == Exit.USAGE and len(err) == 3 and all(line.startswith("! ") for line in err)
    assert [each.text for each in words(lake, "r")] == ["hello"]
    assert silva(["guide", "attach", "none", "--lake", str(lake)]) == Exit.USAGE


def test_following_shows_each_node_once_though_it_is_kept_late(lake: Path) -> None:
    with Lake.open(lake, mode="read") as opened:
        follow = Follow(opened, "r")
        seen = follow.read()
        assert [each.turn for each in seen] == [0, 1, 1, 2] and follow.live == {LIVE: "e/1"}
        assert follow.read() == [] and not follow.over
        late = node(seen[-1].node, Author.ENVIRONMENT, user("it opens"), "0.0", 3.5)
        with Lake.open(lake) as writer:
            writer.append_sync([late])
            (one,) = follow.read()
        assert one.turn == 2 and in_words(one) == "1 0.0 turn 2 environment: it opens"
        assert follow.read() == []
        assert Follow(opened, "r", "elsewhere").read() == []


@pytest.mark.slow
async def test_from_the_shell_a_killed_run_still_waits_and_a_pipe_decides(home: Path) -> None:
    speaker(home, {})
    async with ScriptedServer(Script(function="speaker.py:reply", folder=str(home))) as server:
        given = settings(home, server.url, guidance={"patterns": ["number.: ?2"]}).model_dump_json(exclude_unset=True)
        (home / "r.json").write_text(given)
        shell = dict(os.environ, SILVA_LAKE=str(home / "lake"))
        start = [sys.executable, "-m", "silva", "rollout", "-c", str(home / "r.json")]
        quiet: Any = {"env": shell, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

        def waits() -> list[Any]:
            return waiting(home / "lake", "r")

        def begin(*more: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*start, *more], **quiet)

        running = begin()
        await until(waits)
        running.send_signal(signal.SIGKILL)
        await asyncio.to_thread(running.wait)
        (before,) = waits()
        running = begin("--resume")
        lines = '/edit {"name": "add", "arguments": {"number": 50}}\n/good 1 well begun\n'
        attach = [sys.executable, "-m", "silva", "guide", "attach", "r", "--by", "ann", "--stay"]
        seen = await asyncio.to_thread(
            subprocess.run, attach, env=shell, input=lines, capture_output=True, text=True, timeout=300, check=True
        )
        assert await asyncio.to_thread(running.wait) == 0
    assert "waits for approval" in seen.stdout and "ann takes: add(" in seen.stdout
    assert seen.stdout.splitlines()[-1] == "run r has ended"
    with Lake.open(home / "lake", mode="read") as lake:
        (trajectory,) = lake.trajectories(run_id="r")
        walk = lake.walk(trajectory)
        labels = [each for each in lake.supervisions(run_id="r") if each.verdict == "good"]
    taken = next(node for node in walk if node.author is Author.PERSON)
    assert taken.attributes["instead_of"] == before.node_id and waits() == []
    assert [each.message.text for each in walk if each.message.text.startswith("total")][2] == "total 51"
    assert [each.by for each in labels] == ["ann"] and asked(home).count(2) == 1


async def until(holds: Callable[[], object], seconds: float = 240.0) -> None:
    """Wait until something is so."""
    for _ in range(int(seconds / 0.2)):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.2)
    raise AssertionError("it did not come to that")
