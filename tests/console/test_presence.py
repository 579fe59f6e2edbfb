"""The state of agents, told by heartbeats, events and the journal; and the inbox of all that wait."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from console_lakes import Grower, run_record, task_record
from consoles import until
from live_engines import RUN, Engine

from silva.console.attempt import CUT, Attempt
from silva.console.presence import Presence, stall_of
from silva.console.reading import Reading
from silva.guide.event import Event, Events
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.lake.heartbeat import OLD, Beat, beating, beats_of, born_of, read_beat

GONE = Beat(run="r", pid=2**22 + 1, born=1, machine="", at=0.0)


def attempt(moved: float, status: str = "running") -> Attempt:
    return Attempt(id="t", run="r", tree="x", slot="0.0", status=status, moved=moved)


def beaten(folder: Path, **fields: Any) -> None:
    """Change the one heartbeat there is."""
    (beat,) = folder.glob("*.json")
    known = msgspec.json.decode(beat.read_bytes(), type=Beat)
    beat.write_bytes(msgspec.json.encode(msgspec.structs.replace(known, **fields)))


@pytest.fixture
def beats(tmp_path: Path) -> Path:
    """The folder of a lake in which run r beats, from this process."""
    (tmp_path / "lake").mkdir()

    async def beat() -> None:
        async with beating(str(tmp_path / "lake"), "r"):
            await asyncio.sleep(0.05)
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(beat())
    return beats_of(str(tmp_path / "lake"))


def test_a_beat_stays_where_its_run_broke_off_and_goes_with_one_that_ended(beats: Path, tmp_path: Path) -> None:
    beat = read_beat(beats, "r")
    assert beat is not None and beat.pid == os.getpid() and beat.gone() is False and not beat.old(time.time())

    async def ended() -> None:
        async with beating(str(tmp_path / "lake"), "r"):
            await asyncio.sleep(0.05)

    asyncio.run(ended())
    assert read_beat(beats, "r") is None


def test_a_process_of_the_same_number_is_another(beats: Path) -> None:
    beaten(beats, born=1)
    beat = read_beat(beats, "r")
    assert beat is not None and beat.gone() is True
    beaten(beats, machine="another")
    beat = read_beat(beats, "r")
    assert beat is not None and beat.gone() is None, "another machine's processes cannot be seen from here"


def test_states_from_heartbeat_events_and_journal(beats: Path, tmp_path: Path) -> None:
    now, run = time.time(), run_record("r")
    presence = Presence(beats, tmp_path / "mail")
    events = Events(tmp_path / "mail", "r")

    def told(kind: str, **facts: Any) -> None:
        events.tell(Event(kind=kind, at=now, run_id="r", trajectory_id="t", task_id="e/1", **facts))  # pyright: ignore
        presence.look([run])

    def state(moved: float = now) -> str:
        return presence.state(run, attempt(moved), now)[0]

    presence.look([run])
    assert state() == "working" and state(now - stall_of(run) - 1) == "stalled"
    told("waiting", node_id="n", action="rm -rf build", reasons=("risky",))
    assert state() == "waiting" and [one.node_id for _, one in presence.waiting()] == ["n"]
    told("decided", node_id="n", text="approve", by="ann")
    assert state() == "working" and not presence.waiting()
    told("heard", word="w", text="pause")
    assert state() == "paused"
    told("heard", word="v", text="resume")
    assert state() == "working"
    beaten(beats, at=now - OLD - 1)
    presence.look([run])
    assert state() == "stalled", "its process is there, but says nothing"
    beaten(beats, pid=GONE.pid, born=GONE.born)
    presence.look([run])
    assert state() == "dead"
    assert presence.state(run, attempt(now, CUT), now)[0] == "left"
    assert presence.state(run, attempt(now, "completed"), now) == ("", "")


def test_the_inbox_has_every_run_that_waits_and_not_what_has_ended(home: Path) -> None:
    with Lake.open(home / "lake") as writer:
        for name in ("one", "two", "over"):
            grower = Grower(name, "terminal/a")
            action, _ = grower.turn(command="rm -rf build\u202e")
            records = [run_record(name), task_record("terminal/a"), *grower.nodes]
            writer.append_sync([*records, grower.end()] if name == "over" else records)
            Events(folder_of(str(home / "lake")), name).tell(
                Event(
                    kind="waiting", at=time.time(), run_id=name, trajectory_id=grower.id, task_id="terminal/a",
                    turn=1, node_id=action.id, action="rm", reasons=("risky",),
                )
            )  # fmt: skip
        from silva.console.inbox import inbox

        reading = Reading(str(home / "lake"))
        reading.watch.start()
        try:
            found = inbox(reading.watch, reading.trees)
        finally:
            reading.close()
    assert [(each["run"], each["turn"], each["reasons"]) for each in found["waiting"]] == [
        ("one", 1, ["risky"]),
        ("two", 1, ["risky"]),
    ]
    assert found["waiting"][0]["calls"][0]["fields"] == [
        {"name": "command", "value": "rm -rf build\u202e", "kind": "code", "cut": 0}
    ]


@pytest.mark.slow
def test_a_killed_run_is_told_as_dead_and_a_stopped_one_as_left(engine: Callable[..., Engine]) -> None:
    live = engine(seconds=0.2)
    reading = Reading(str(live.lake))
    reading.watch.start()
    try:
        row = until(lambda: next(iter(reading.attempts(run=RUN)["rows"]), None))
        assert row["state"] == "working"
        live.close()
        beaten(beats_of(str(live.lake)), at=time.time() - OLD - 1)  # so long ago was its last
        until(lambda: reading.attempts(run=RUN)["rows"][0]["state"] == "dead", 60)
        assert reading.runs()[0]["states"] == {"dead": 1}
    finally:
        reading.close()


def test_a_zombie_is_no_process_that_lives(beats: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    beaten(beats, pid=child.pid, born=born_of(child.pid))
    beat = read_beat(beats, "r")
    assert beat is not None and beat.gone() is False
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet buried
    assert beat.gone() is True
    child.wait()
