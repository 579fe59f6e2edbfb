"""Compaction in a process of its own: the same tables, and nothing lost when either process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from lake_records import episode

from silva.errors import StoreError
from silva.lake import Lake
from silva.lake.apart import Apart
from silva.lake.place import place

pytestmark = pytest.mark.slow


def children(of: int | None = None) -> list[psutil.Process]:
    found = psutil.Process(of).children(recursive=True)
    return [each for each in found if "silva.lake.apart" in " ".join(each.cmdline())]


def compacted(lake: Lake) -> None:
    """Seal what is there, and wait for the thread to have it compacted."""
    assert lake._journal is not None
    lake._journal.seal()
    until = time.monotonic() + 60
    while list(Path(lake.location, "journal").glob("*.sealed")):
        assert time.monotonic() < until, lake.stats()
        time.sleep(0.05)


def test_the_tables_are_those_that_a_thread_makes(tmp_path):
    whole = {}
    for how in ("thread", "process"):
        with Lake.open(tmp_path / how, compaction=how) as lake:
            for number in range(5):
                nodes, trajectory = episode(number)
                lake.append_sync([*nodes, trajectory])
            compacted(lake)
        with Lake.open(tmp_path / how, "read") as lake:
            whole[how] = (sorted(lake.nodes(), key=lambda n: n.id), sorted(lake.trajectories(), key=lambda t: t.id))
            assert lake.sql("select count(*) from nodes").column(0)[0].as_py() == 30
    assert whole["thread"] == whole["process"]
    assert not children()


def test_a_killed_child_is_started_again_and_nothing_is_missing(tmp_path):
    with Lake.open(tmp_path / "lake", compaction="process") as lake:
        nodes, trajectory = episode(1)
        lake.append_sync([*nodes, trajectory])
        compacted(lake)
        (child,) = children()
        child.kill()
        child.wait()
        more, other = episode(2)
        lake.append_sync([*more, other])
        compacted(lake)
        assert children()[0].pid != child.pid
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert {node.id for node in lake.nodes()} == {node.id for node in (*nodes, *more)}


def test_a_child_killed_at_work_costs_a_segment_its_turn_and_nothing_else(tmp_path):
    with Lake.open(tmp_path / "lake", compaction="process") as lake:
        nodes, _ = episode(1)
        lake.append_sync(nodes)
        compacted(lake)
        (child,) = children()
        child.suspend()
        more, _ = episode(2)
        lake.append_sync(more)
        killed = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {child.pid}"])
        assert lake._journal is not None
        lake._journal.seal()
        killed.wait()
        assert {node.id for node in lake.nodes()} == {node.id for node in (*nodes, *more)}
        lake.append_sync(episode(3)[0])
        compacted(lake)  # the segment that was left goes with it
    assert not list((tmp_path / "lake" / "journal").glob("*.sealed"))


def test_the_death_of_a_child_at_work_is_told_in_one_line(tmp_path):
    where = place(tmp_path / "lake")
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync(episode(1)[0])
    apart = Apart(where)
    apart.compact(1, gentle=True)  # nothing of that number is there: nothing to do
    (child,) = children()
    child.suspend()
    killed = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {child.pid}"])
    with pytest.raises(StoreError, match=r"lake .*: the process that fills its tables ended"):
        apart.compact(2, gentle=True)
    killed.wait()
    apart.compact(3, gentle=False)
    apart.close()
    assert not children()


PARENT = """
import sys, time
from lake_records import episode
from silva.lake import Lake
lake = Lake.open(sys.argv[1], compaction="process")
nodes, trajectory = episode(1)
lake.append_sync([*nodes, trajectory])
from test_apart import compacted
compacted(lake)
print("compacted", flush=True)
time.sleep(60)
"""


def test_the_child_is_gone_when_its_parent_was_killed(tmp_path):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "lake")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:
        assert parent.stdout and parent.stdout.readline() == b"compacted\n"
        (child,) = children(parent.pid)
        parent.send_signal(signal.SIGKILL)
    until = time.monotonic() + 10
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    with Lake.open(tmp_path / "lake") as lake:
        assert len(lake.nodes()) == 6


def test_a_damaged_segment_is_told_as_it_is_in_a_thread(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync(episode(1)[0])
        (segment,) = (tmp_path / "lake" / "journal").glob("*.open")
        data = bytearray(segment.read_bytes())
    data[30] ^= 0xFF
    damaged = segment.with_name("0000000007.sealed")
    damaged.write_bytes(data)
    apart = Apart(place(tmp_path / "lake"))
    with pytest.raises(StoreError, match="damaged"):
        apart.compact(7, gentle=False)
    apart.close()
    assert damaged.exists()
