"""Everything that can be wrong with a lake: one line, exit code 5, and what was acknowledged stays readable."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lake_records import environment, episode, task

from silva.errors import Exit, SilvaError, StoreError, UsageError
from silva.lake import Lake, field
from silva.lake.frames import MAGIC, frame, frames

ROOT = os.name == "posix" and os.geteuid() == 0
WRITER = """
import sys, time
from lake_records import episode
from silva.lake import Lake
lake = Lake.open(sys.argv[1])
lake.append_sync([*episode(1)[0], episode(1)[1]])
lake.compact()
lake.append_sync(episode(2)[0])
print("written", flush=True)
time.sleep(600)
"""


def refused(location, line: str, mode="write", kind=StoreError, **settings) -> None:
    with pytest.raises(kind, match=line) as caught:
        Lake.open(location, mode, **settings)
    assert "\n" not in str(caught.value)
    if kind is StoreError:
        assert caught.value.code == Exit.STORE


def test_what_is_no_lake_is_refused(tmp_path):
    refused(tmp_path / "none", "is not a lake .*silva rollout", "read")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("a")
    refused(tmp_path / "notes", "is not a lake .*empty folder")
    refused(tmp_path / "notes", "is not a lake", "read")
    refused(tmp_path / "notes" / "a.txt", "not a folder")
    refused("gs://bucket/lake", "not a store Silva knows")
    assert sorted(p.name for p in (tmp_path / "notes").iterdir()) == ["a.txt"]


def test_a_newer_schema_is_refused_by_number(tmp_path):
    with Lake.open(tmp_path / "lake"):
        pass
    (tmp_path / "lake" / "lake.json").write_text(json.dumps({"lake": "silva", "schema": 99}))
    for mode in ("read", "write"):
        refused(tmp_path / "lake", "schema 99 is newer than this Silva reads .*upgrade silva", mode)
    (tmp_path / "lake" / "lake.json").write_text("{")
    refused(tmp_path / "lake", "lake.json is damaged", "read")


def test_a_second_writer_is_refused_and_told_who(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        refused(tmp_path / "lake", f"being written by pid {os.getpid()}")
        script = "import sys; from silva.lake import Lake; Lake.open(sys.argv[1])"
        other = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "lake")], capture_output=True, text=True, env=environment()
        )
        assert other.returncode != 0 and f"being written by pid {os.getpid()}" in other.stderr
        with pytest.raises(StoreError, match="being written by"):
            Lake.open(tmp_path / "lake", "read").doctor(repair=True)
        lake.append_sync([task(1)])
    with Lake.open(tmp_path / "lake") as lake:
        assert len(lake.tasks()) == 1


def test_a_dead_writers_lock_does_not_block(tmp_path):
    script = "import os, sys; from silva.lake import Lake; Lake.open(sys.argv[1]); os._exit(1)"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "lake")], env=environment(), check=False)
    assert (tmp_path / "lake" / "writer.pid").exists()
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([task(1)])


def test_a_reader_does_not_write(tmp_path):
    lake = tmp_path / "lake"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(lake)], stdout=subprocess.PIPE, env=environment())
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"written\n"
        # A writer at rest still lays room out ahead of its next batch: stopped, nobody writes but the reader.
        os.kill(writer.pid, signal.SIGSTOP)
        os.waitpid(writer.pid, os.WUNTRACED)
        before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
        reader = Lake.open(lake, "read")
        assert len(reader.nodes()) == 12 and reader.search("task") and reader.doctor() == [] and reader.stats()
        for action in (
            lambda: reader.append_sync([task(1)]),
            reader.compact,
            reader.optimize,
            lambda: reader.tag("x"),
            lambda: asyncio.run(reader.put_blob(b"x")),
        ):
            with pytest.raises(StoreError, match="is open to read"):
                action()
        assert before == {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    finally:
        writer.kill()
        writer.wait()


def test_a_closed_lake_takes_nothing(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([task(1)])
    with pytest.raises(StoreError, match="is closed"):
        lake.append_sync([task(1)])


def test_an_unknown_version_is_refused(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([task(1)])
        lake.tag("one")
    refused(tmp_path / "lake", "has no version two; it has one", "read", version="two")
    refused(tmp_path / "lake", "can only be read", "write", kind=UsageError, version="one")


def test_a_damaged_segment_is_named_repaired_and_salvaged(tmp_path):
    location = tmp_path / "lake"
    script = """
import os, sys
from lake_records import task
from silva.lake import Lake
lake = Lake.open(sys.argv[1])
lake.append_sync([task(number) for number in range(50)])
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script, str(location)], env=environment(), check=True)
    (segment,) = (location / "journal").iterdir()
    data = bytearray(segment.read_bytes())
    data[700] ^= 0xFF
    segment.write_bytes(data)
    refused(location, r"segment 1 is damaged at byte \d+; run `silva lake doctor --repair`")
    reader = Lake.open(location, "read")
    (finding,) = reader.doctor()
    assert finding.kind == "segment" and "49 records are whole" in finding.message and not finding.repaired
    (finding,) = reader.doctor(repair=True)
    assert finding.repaired
    assert reader.doctor() == []
    assert (location / "quarantine").is_dir()
    assert next((location / "quarantine").iterdir()).read_bytes() == bytes(data)
    for _ in range(2):
        with Lake.open(location) as lake:
            assert len(lake.tasks()) == 49


def test_a_damaged_table_is_found(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync([task(1)])
    for file in (tmp_path / "lake" / "tables" / "tasks.lance" / "data").rglob("*.lance"):
        file.write_bytes(b"\x00" * 100)
    (finding,) = Lake.open(tmp_path / "lake", "read").doctor()
    assert finding.kind == "table" and finding.where == "tasks" and "\n" not in finding.message


def test_a_damaged_file_costs_its_own_rows_alone_and_they_are_told(tmp_path, caplog):
    location = tmp_path / "lake"
    kept: list[set[Path]] = []
    for some in (range(40), range(40, 100)):
        with Lake.open(location) as lake:
            lake.append_sync([task(number) for number in some])
        kept.append(set((location / "tables" / "tasks.lance" / "data").iterdir()))
    (second,) = kept[1] - kept[0]
    second.write_bytes(b"\0" * 100)
    with Lake.open(location, "read") as lake:
        left = {f"env/{number}" for number in range(40)}
        assert {each.id for each in lake.tasks()} == left
        assert {each.id for each in lake.tasks(where=field("id") != "env/3")} == left - {"env/3"}
        assert lake.sql("select count(id) n from tasks where id <> 'env/3'").to_pylist() == [{"n": 39}]
        (finding,) = lake.doctor()
        assert finding.kind == "table" and "row 41 to 100" in finding.message and "left out" in finding.message
    assert len([each for each in caplog.records if "row 41 to 100 cannot be read" in each.getMessage()]) == 1


def test_a_row_that_holds_no_record_is_left_out_by_name(tmp_path):
    location = tmp_path / "lake"
    with Lake.open(location) as lake:
        lake.append_sync([task(1), task(2)])
    with Lake.open(location) as lake:
        table = lake.tables.open("tasks")  # pyright: ignore
        assert table is not None
        table.update(where="id = 'env/2'", values={"rest": b"\x81\xa4tags\xa1x"})
    with Lake.open(location, "read") as lake:
        assert [each.id for each in lake.tasks()] == ["env/1"]
        (finding,) = lake.doctor()
        assert finding.kind == "table" and finding.message.startswith("env/2: cannot be read")


def test_a_whole_record_that_cannot_be_read_is_left_out_of_the_journal_alone(tmp_path):
    location = tmp_path / "lake"
    with Lake.open(location) as lake:
        lake.append_sync([task(1)])
    strange = MAGIC + frame(b"\x92\x01\xa4what") + frames([task(2)])
    (location / "journal" / "0000000009.sealed").write_bytes(strange)
    with Lake.open(location, "read") as lake:
        assert {each.id for each in lake.tasks()} == {"env/1", "env/2"}
        (finding,) = lake.doctor()
        assert finding.kind == "record" and "1 records of segment 9" in finding.message


def test_blobs_without_entry_or_file_are_found(tmp_path):
    location = tmp_path / "lake"
    with Lake.open(location) as lake:
        one = asyncio.run(lake.put_blob(b"one"))
    from silva.lake import blobs
    from silva.lake.place import Folder

    blobs.put(Folder(str(location)), b"two")
    (location / blobs.path_of(one)).unlink()
    reader = Lake.open(location, "read")
    assert sorted(finding.kind for finding in reader.doctor()) == ["blob", "unlisted"]
    assert [finding.repaired for finding in reader.doctor(repair=True) if finding.kind == "unlisted"] == [True]
    assert [finding.kind for finding in reader.doctor()] == ["blob"]


def test_an_orphan_node_is_found(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        nodes, trajectory = episode(1)
        lake.append_sync([*nodes[:2], *nodes[3:], trajectory])
        assert [finding.kind for finding in lake.doctor()] == ["orphan"]
        with pytest.raises(StoreError, match=r"cannot be shown: node .* of its walk is not here"):
            lake.walk(trajectory)


FULL = """
import asyncio, sys, resource
from lake_records import episode
from silva.lake import Lake
from silva.errors import StoreError

async def main():
    lake = Lake.open(sys.argv[1], window_ms=2)
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    kept, lines = [], []
    async def one(number):
        for node in episode(number, turns=60)[0]:
            try:
                await lake.append([node])
            except StoreError as error:
                lines.append(str(error))
                return
            kept.append(node.id)
    await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(200))), 60)
    assert len(lines) == 200 and len(set(lines)) == 1, set(lines)
    print(lines[0])
    try:
        await lake.append(episode(1)[0])
    except StoreError as error:
        print(error)
    known = {node.id for node in lake.nodes()}
    assert known >= set(kept), "an acknowledged node is gone"
    print(len(kept), len(known))
    try:
        await lake.close()
    except StoreError as error:
        print(error)
asyncio.run(main())
"""


def full(location: Path, how: str) -> tuple[list[str], int]:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(location), how], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    kept, known = map(int, lines[2].split())
    assert lines[0] == lines[1]
    assert known == kept > 0
    return lines, kept


def test_a_file_size_limit_stops_every_writer_and_loses_nothing(tmp_path):
    lines, kept = full(tmp_path / "lake", "limit")
    assert "reached the size limit" in lines[0]
    with Lake.open(tmp_path / "lake") as lake:
        assert len(lake.nodes()) == kept
        lake.append_sync([task(1)])
        assert lake.doctor() == []


@pytest.mark.skipif(not ROOT, reason="mounting a small file system needs root")
def test_a_full_disk_stops_every_writer_and_loses_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        lines, kept = full(disk / "lake", "disk")
        assert "the disk is full" in lines[0]
        with Lake.open(disk / "lake", "read") as lake:
            assert len(lake.nodes()) == kept
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        with Lake.open(disk / "lake") as lake:
            assert len(lake.nodes()) == kept
            lake.append_sync([task(1)])
        assert Lake.open(disk / "lake", "read").doctor() == []
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_read_only_folder_can_be_read_and_not_written(tmp_path):
    location = tmp_path / "disk" / "lake"
    location.parent.mkdir()
    if ROOT and subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(location.parent)], capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        with Lake.open(location) as lake:
            lake.append_sync(episode(1)[0])
        if ROOT:
            subprocess.run(["mount", "-o", "remount,ro", str(location.parent)], check=True)
        else:
            for path in [location, *location.rglob("*")]:
                path.chmod(0o555 if path.is_dir() else 0o444)
        refused(location, "cannot be written .*write access")
        with Lake.open(location, "read") as lake:
            assert len(lake.nodes()) == 6 and lake.doctor() == []
    finally:
        if ROOT:
            subprocess.run(["umount", "-l", str(location.parent)], check=False)
        else:
            for path in [location, *location.rglob("*")]:
                path.chmod(0o755)


def test_errors_are_silvas_own(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        for action in (lambda: lake.sql("nonsense"), lambda: lake.nearest([1.0]), lambda: lake.get_blob("x")):
            with pytest.raises(SilvaError):
                action()
