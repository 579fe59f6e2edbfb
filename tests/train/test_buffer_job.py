"""A job on disk: what is acknowledged is there again, and what waits is woken."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from buffer_groups import group

from silva.errors import StoreError
from silva.train.buffer import BlockingBuffer, Job, JobConfig, Jobs, Refused
from silva.train.buffer.jobs import read_job

TERMS = JobConfig(bound=1, groups_per_step=2)


def found(folder: Path, pattern: str) -> list[Path]:
    return sorted((folder / "jobs" / "night").glob(pattern))


async def bring(job: Job, *names: str) -> None:
    await job.start(names)
    for name in names:
        await job.put(group(name, job.controller.version))


async def test_a_job_that_is_closed_and_opened_goes_on_where_it_was(tmp_path: Path) -> None:
    async with Jobs(tmp_path) as jobs:
        job = jobs.open("night", TERMS)
        await bring(job, "a", "b", "c")
        await job.start(["d"])
        first = await job.take(0, 2)
        token = jobs.token("night")
    async with Jobs(tmp_path) as jobs:
        assert jobs.names == ["night"] and jobs.token("night") == token != jobs.token("day")
        job = jobs.open("night", TERMS)
        assert await job.take(0, 2) == first
        assert [each.group for each in first] == [group("a", 0), group("b", 0)]
        assert await job.start(["d", "a"]) == await job.start(["d", "a"])
        assert (await job.put(group("c", 0))).again
        status = await job.commit(2, 1)
        assert (status.committed, status.version, status.ready, status.in_flight) == (2, 1, 1, 1)
        with pytest.raises(Refused, match="trained and gone"):
            await job.read("a")
        assert await job.read("c") == group("c", 0)
    assert read_job(tmp_path, "night").status() == status
    assert len(found(tmp_path, "groups/*/*")) == 1  # the released ones are gone


async def test_files_that_a_kill_left_are_swept_and_missing_ones_are_told(tmp_path: Path) -> None:
    async with Jobs(tmp_path) as jobs:
        await bring(jobs.open("night", TERMS), "a", "b")
    kept = found(tmp_path, "groups/*/*")
    for name in (".draft", "orphan.group"):
        (kept[0].parent / name).write_bytes(b"half")
    async with Jobs(tmp_path):
        assert found(tmp_path, "groups/*/*") == kept
    whole = kept[0].read_bytes()
    kept[0].write_bytes(whole[:-1] + b"!")
    async with Jobs(tmp_path) as jobs:
        with pytest.raises(StoreError, match="is damaged; restore it"):
            await jobs.get("night").take(0, 2)
    kept[0].unlink()
    with pytest.raises(StoreError, match=r"buffer job night: group [ab] has no file"):
        Jobs(tmp_path)


async def test_a_damaged_journal_is_refused_and_a_torn_end_is_cut(tmp_path: Path) -> None:
    async with Jobs(tmp_path) as jobs:
        await bring(jobs.open("night", TERMS), "a", "b")
    (segment,) = found(tmp_path, "journal/*.sealed")
    whole = segment.read_bytes()
    torn = segment.with_suffix(".open")
    segment.rename(torn)
    torn.write_bytes(whole + b"\x50\x00\x00\x00half")
    assert read_job(tmp_path, "night").status().ready == 2
    async with Jobs(tmp_path) as jobs:
        assert (await jobs.get("night").status()).ready == 2
    (segment,) = found(tmp_path, "journal/*.sealed")
    segment.write_bytes(whole[:40] + b"??" + whole[42:])
    with pytest.raises(StoreError, match=r"buffer job night: journal segment 1 is damaged at byte \d+; restore it"):
        Jobs(tmp_path)


async def test_one_process_holds_a_folder_and_terms_are_fixed(tmp_path: Path) -> None:
    async with Jobs(tmp_path, most=1) as jobs:
        jobs.open("night", TERMS)
        with pytest.raises(StoreError, match=f"is being written by pid {os.getpid()}; stop that process"):
            Jobs(tmp_path)
        with pytest.raises(Refused, match="opened with bound=1, not 2"):
            jobs.open("night", JobConfig(bound=2, groups_per_step=2))
        with pytest.raises(Refused, match="1 jobs already"):
            jobs.open("day", TERMS)
        with pytest.raises(Refused, match="use letters"):
            jobs.open("../day", TERMS)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


async def test_who_waits_for_room_or_for_groups_is_woken(tmp_path: Path) -> None:
    async with Jobs(tmp_path) as jobs:
        job = jobs.open("night", JobConfig(bound=0, groups_per_step=1))
        waits = asyncio.create_task(job.take(0, 1, wait=30))
        await bring(job, "a")
        assert [each.group.id for each in await asyncio.wait_for(waits, 0.5)] == ["a"]
        assert (await job.start(["b"])).admitted == ()
        with pytest.raises(Refused, match="no room for a group that was not started"):
            await job.put(group("b", 0))
        waits = asyncio.create_task(job.start(["b"], wait=30))
        await asyncio.sleep(0)
        await job.commit(1, 1)
        assert (await asyncio.wait_for(waits, 0.5)).admitted == ("b",)


async def test_a_group_in_flight_for_too_long_is_given_up_and_taken_if_it_comes(tmp_path: Path) -> None:
    async with Jobs(tmp_path) as jobs:
        job = jobs.open("night", JobConfig(bound=0, groups_per_step=1, permit_seconds=0.02))
        await job.start(["a"])
        assert await job.permits() == 0
        await asyncio.sleep(0.03)
        status = await job.status()
        assert (status.permits, status.in_flight, status.abandoned) == (1, 0, 1)
        assert (await job.put(group("a", 0))).state == "ready"


async def test_the_same_group_brought_twice_at_once_is_kept_once(tmp_path: Path) -> None:
    async with Jobs(tmp_path) as jobs:
        job = jobs.open("night", TERMS)
        receipts = await asyncio.gather(*(job.put(group("a", 0)) for _ in range(5)))
        assert sorted(receipt.again for receipt in receipts) == [False, True, True, True, True]
        assert {receipt.sequence for receipt in receipts} == {1}


def test_without_asyncio(tmp_path: Path) -> None:
    with BlockingBuffer.local(tmp_path, "night", TERMS) as buffer:
        assert buffer.start(["a", "b"]).admitted == ("a", "b")
        for name in ("a", "b"):
            buffer.put(group(name, 0))
        assert [each.number for each in buffer.take(0, 2)] == [1, 2]
        assert buffer.commit(2, 1, checkpointed=0).checkpointed == 0
        assert buffer.rewind(0, 0).version == 0
        assert buffer.permits() == 2 and buffer.status().taken == 2
        assert (buffer.abandon(["z"]), buffer.withheld()) == (0, [])
        with pytest.raises(StoreError, match="is being written"):
            BlockingBuffer.local(tmp_path, "night", TERMS)


FULL = """
import asyncio, resource, sys
from pathlib import Path
from buffer_groups import group
from silva.errors import StoreError
from silva.train.buffer import Jobs, JobConfig

async def main():
    async with Jobs(Path(sys.argv[1])) as jobs:
        job = jobs.open("night", JobConfig(groups_per_step=40))
        await job.put(group("a", 0))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
        for payload in (b"x" * 5000, b"x"):  # first the group's file is too large, then the journal
            try:
                for number in range(60):
                    await job.put(group(f"{len(payload)}-{number}", 0, payload=payload))
            except StoreError as error:
                print(error)
        kept = (await job.status()).ready if not job._files.failed else None
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await asyncio.sleep(1.1)
        await job.put(group("last", 0))
        print(kept, (await job.status()).ready)
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_disk_that_refuses_loses_nothing_acknowledged_and_goes_on_when_it_is_mended(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert lines[0] == "buffer job night: File too large; mend it; what was acknowledged is kept"
    assert lines[1].startswith("buffer job night: a file reached the size limit of this process;")
    kept = read_job(tmp_path, "night").status().ready
    assert lines[2] == f"None {kept}" and kept > 2
