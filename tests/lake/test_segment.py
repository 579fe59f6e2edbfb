"""Segments: zeros laid ahead, batches that a loss of power tore, and records written at once."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lake_records import environment, episode, held, task

from silva.errors import StoreError
from silva.lake.follower import Follower
from silva.lake.frames import MAGIC, SECTOR, frames, parts
from silva.lake.journal import Journal
from silva.lake.recovery import recover
from silva.lake.segment import AHEAD, Segment, segments
from silva.lake.tail import Tail
from silva.tree import encode


def records(number: int, count: int) -> list:
    return [task(number * 100 + each) for each in range(count)]


def test_zeros_are_laid_ahead_once_something_is_written_and_are_nothing_to_a_reader(tmp_path):
    segment = Segment(tmp_path, 1)
    segment.lay_ahead()
    path = tmp_path / "0000000001.open"
    assert path.stat().st_size == len(MAGIC), "who only opens a journal takes no room"
    follower, tail = Follower(tmp_path), Tail(tmp_path)
    seen: list[str] = []
    for number in range(5):
        segment.write([frames(records(number, 3))])
        seen += [item.id for item in follower.fresh()]
        segment.lay_ahead()
        assert path.stat().st_size > AHEAD
        assert follower.fresh() == []
    tail.refresh()
    wanted = [each.id for number in range(5) for each in records(number, 3)]
    assert seen == wanted and len(tail._sorted.tables["tasks"]) == 15
    assert segment.finish()
    assert (tmp_path / "0000000001.sealed").stat().st_size == segment.size and held(tmp_path) == wanted
    follower.close()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.integers(1, 12), min_size=2, max_size=5), lost=st.sets(st.integers(0, 40), min_size=1))
def test_a_last_batch_that_the_disk_took_in_parts_is_cut_off_and_nothing_else_is(tmp_path, batches, lost):
    folder = tmp_path / os.urandom(8).hex()
    folder.mkdir()
    segment = Segment(folder, 1)
    for number, count in enumerate(batches[:-1]):
        segment.write([frames(records(number, count))])
        segment.lay_ahead()
    acknowledged = segment.size
    assume(acknowledged % SECTOR <= SECTOR - 4)  # zeros that could be part of a length are not told from damage
    segment.write([frames(records(len(batches), batches[-1] * 5))])
    segment.close()
    path = folder / "0000000001.open"
    data = bytearray(path.read_bytes())
    for each in lost:  # these sectors still hold what was there before
        start = max(acknowledged, acknowledged // SECTOR * SECTOR + each * SECTOR)
        end = min((start // SECTOR + 1) * SECTOR, segment.size)
        data[start:end] = bytes(max(0, end - start))
    path.write_bytes(data)
    assert recover(folder, "here") == 1
    wanted = [each.id for number, count in enumerate(batches[:-1]) for each in records(number, count)]
    kept = held(folder)
    assert kept[: len(wanted)] == wanted, "what was acknowledged is kept"
    assert (
        kept[len(wanted) :] == [each.id for each in records(len(batches), batches[-1] * 5)][: len(kept) - len(wanted)]
    )


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_changed_byte_is_damage_in_whichever_batch(tmp_path, batch):
    segment, ends = Segment(tmp_path, 1), []
    for number in range(3):
        segment.write([frames(records(number, 20))])
        segment.lay_ahead()
        ends.append(segment.size)
    segment.close()
    path = tmp_path / "0000000001.open"
    data = bytearray(path.read_bytes())
    data[ends[batch] - 700] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged at byte"):
        recover(tmp_path, "here")


def test_sectors_lost_of_an_earlier_batch_are_damage(tmp_path):
    segment = Segment(tmp_path, 1)
    segment.write([frames(records(0, 40))])
    segment.write([frames(records(1, 2))])
    segment.close()
    path = tmp_path / "0000000001.open"
    data = bytearray(path.read_bytes())
    data[SECTOR : 3 * SECTOR] = bytes(2 * SECTOR)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged at byte"):
        recover(tmp_path, "here")


async def test_what_is_written_at_once_is_on_disk_when_it_returns_and_keeps_its_order(tmp_path):
    log = Journal(tmp_path, where="here", number=1, window=0, seal_bytes=3_000)
    log._seconds = 0.0  # a quick disk
    wanted: list[str] = []
    here = 0
    for number in range(60):
        waiting = log.submit(frames(records(number, 2)), at_once=number % 3 != 0)
        wanted += [each.id for each in records(number, 2)]
        here += waiting.done()
        if waiting.done():
            assert held(tmp_path) == wanted
        log._seconds = 0.0
        await waiting
        while log._wake.is_set() or log._writing.locked():  # noqa: ASYNC110 - its thread's turn, however busy the machine
            await asyncio.sleep(0.001)
    log.close()
    assert here > 20 and held(tmp_path) == wanted and len(segments(tmp_path)) > 1


@pytest.mark.parametrize("most", [1, 7, 900, 1 << 20])
def test_a_batch_of_thousands_of_parts_is_whole_however_little_the_system_takes_at_once(tmp_path, monkeypatch, most):
    def little(descriptor: int, given: list, at: int) -> int:
        assert len(given) <= os.sysconf("SC_IOV_MAX")
        return pwritev(descriptor, [b"".join(map(bytes, given[: most + 1]))[:most]], at)

    pwritev = os.pwritev
    count = 3 if most < 100 else 1_500
    segment = Segment(tmp_path, 1)
    segment.write([frames(records(0, 2))])
    monkeypatch.setattr(os, "pwritev", little)
    segment.write(parts(map(encode, records(1, count))))
    segment.write(parts(map(encode, records(100, 2))))
    monkeypatch.undo()
    wanted = [each.id for number, many in ((0, 2), (1, count), (100, 2)) for each in records(number, many)]
    assert segment.finish()
    assert (tmp_path / "0000000001.sealed").stat().st_size == segment.size and held(tmp_path) == wanted


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_what_is_done_meanwhile_is_done_once_before_anybody_is_told(tmp_path, seconds):
    async def one() -> None:
        done: list[str] = []
        log._seconds = seconds
        waiting = log.submit(frames([task(1)]), at_once=True, meanwhile=lambda: done.append("it"))
        assert waiting.done() == (seconds == 0.0) and done == ["it"]
        await waiting
        assert done == ["it"]

    log = Journal(tmp_path, where="here", number=1, window=0)
    asyncio.run(one())
    log.close()
    assert held(tmp_path) == ["env/1"]


def test_a_slow_disk_is_left_to_the_thread(tmp_path):
    async def one() -> bool:
        return log.submit(frames([task(1)]), at_once=True).done()

    log = Journal(tmp_path, where="here", number=1, window=0)
    assert not asyncio.run(one())
    log.close()
    assert held(tmp_path) == ["env/1"]


FULL = """
import asyncio, resource, sys
from pathlib import Path
from lake_records import episode
from silva.errors import StoreError
from silva.lake.frames import frames
from silva.lake.journal import Journal
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
async def main():
    log, kept = Journal(Path(sys.argv[1]), where="here", number=1, window=0), 0
    while True:
        log._seconds = float(sys.argv[2])
        try:
            nodes, _ = episode(kept)
            await log.submit(frames(nodes), at_once=True)
        except StoreError as error:
            print(kept, error)
            break
        kept += 1
    try:
        log.submit(b"more", at_once=True)
    except StoreError as error:
        print(error)
    log.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("seconds", ["0.0", "1.0"])
def test_room_that_is_not_there_to_lay_ahead_is_used_to_the_end_and_then_told(tmp_path, seconds):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), seconds],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first, again = done.stdout.splitlines()
    kept, _, said = first.partition(" ")
    assert "a file reached the size limit of this process" in said == again
    assert recover(tmp_path, "here") == 1
    ids = held(tmp_path)
    whole = [node.id for number in range(int(kept)) for node in episode(number)[0]]
    assert ids == whole and 300_000 - (tmp_path / "0000000001.sealed").stat().st_size < 20_000


def test_room_is_reserved_before_anything_is_written_or_refused_in_one_line(tmp_path, monkeypatch):
    log = Journal(tmp_path, where="here", number=1, window=0)
    path = tmp_path / "0000000001.open"
    log.reserve()
    assert path.stat().st_size == len(MAGIC) + AHEAD
    assert held(tmp_path) == []
    monkeypatch.setattr(os, "fdatasync", _no_room)
    with pytest.raises(StoreError, match="here: the disk is full"):
        log.reserve()
    monkeypatch.undo()
    log.append_sync(frames(records(1, 2)))
    log.close()
    assert held(tmp_path) == [each.id for each in records(1, 2)]
    with pytest.raises(StoreError, match="closed"):
        log.reserve()


def test_room_that_was_reserved_by_who_was_then_killed_is_no_damage(tmp_path):
    segment = Segment(tmp_path, 1)
    segment.reserve()
    segment.close()
    recover(tmp_path, "here")
    assert held(tmp_path) == []


async def test_nothing_at_all_is_on_disk_once_all_before_it_is_however_quick_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    log = Journal(tmp_path, where="here", number=1, window=0)
    for number in range(80):  # by now it is known to be quick
        await log.submit(parts([encode(task(number))]), at_once=True)
    await log.submit(parts([]), at_once=True)
    log.close()
    assert len(held(tmp_path)) == 80


def _no_room(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
