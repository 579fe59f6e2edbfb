"""Owners that are killed: what they leave is found, and removed, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from _pytest.tmpdir import TempPathFactory

from silva.errors import StoreError
from silva.sandbox import owner
from silva.sandbox.cgroup import Groups
from silva.sandbox.owner import Owner, Process, Standing
from silva.sandbox.process import labelled
from silva.sandbox.reaper import reap, survey
from silva.sandbox.system import probe

PROGRAM = Path(__file__).with_name("owner_program.py")


def started(name: str, state: Path, count: int = 2) -> tuple[subprocess.Popen[bytes], int]:
    process = subprocess.Popen([sys.executable, str(PROGRAM), name, str(state), str(count)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline().split()
    assert line and line[0] == b"ready", "the owner did not start"
    return process, int(line[1])


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def sleepers() -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes() == b"sleep\x004321\x00"
        except OSError:
            continue
    return found


def groups_of(pid: int) -> list[Path]:
    return [path for base in Groups.find().paths for path in Path(base).glob(f"silva-{pid}-*")]


def wait_until(true: object, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until, "still there"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["namespaces", "process"])
def test_an_owner_killed_is_cleaned_up_after_by_itself(tmp_path: Path, name: str) -> None:
    if name == "namespaces" and probe().problem:
        pytest.skip(probe().problem)
    process, _ = started(name, tmp_path)
    before = survey(tmp_path)
    assert [each.standing for each in before] == [Standing.ALIVE] and len(before[0].sandboxes) == 2
    assert reap(tmp_path).owners == 0 and sleepers() >= 4
    killed(process)
    wait_until(lambda: not list(tmp_path.iterdir()) and not groups_of(process.pid))
    wait_until(lambda: sleepers() == 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["namespaces", "process"])
def test_owner_and_fork_server_killed_leave_nothing_after_gc(tmp_path: Path, name: str) -> None:
    if name == "namespaces" and probe().problem:
        pytest.skip(probe().problem)
    process, server = started(name, tmp_path)
    os.kill(server, signal.SIGKILL)
    killed(process)
    (left,) = survey(tmp_path)
    assert left.standing is Standing.DEAD and len(left.sandboxes) == 2
    alive, _ = started(name, tmp_path, 1)
    done = reap(tmp_path)
    assert (done.owners, done.sandboxes, done.left) == (1, 2, ())
    assert groups_of(process.pid) == []
    assert [each.standing for each in survey(tmp_path)] == [Standing.ALIVE]
    wait_until(lambda: sleepers() == 2)
    killed(alive)
    wait_until(lambda: not list(tmp_path.iterdir()))
    reap(tmp_path)
    wait_until(lambda: sleepers() == 0)


def a_folder(state: Path, record: Owner | None) -> Path:
    folder = state / "1-2-aaaa"
    (folder / "box" / "top").mkdir(parents=True)
    if record is not None:
        owner.write(folder / owner.OWNER, record)
    return folder


def test_a_later_process_of_the_same_id_is_not_the_owner(tmp_path: Path) -> None:
    folder, record = owner.claim(tmp_path, "namespaces")
    assert record.standing() is Standing.ALIVE
    later = msgspec.structs.replace(record, process=Process(pid=os.getpid(), start=record.process.start - 1))
    owner.write(folder / owner.OWNER, later)
    assert later.standing() is Standing.DEAD
    assert reap(tmp_path).owners == 1 and not folder.exists()


def test_what_cannot_be_judged_is_left_alone(tmp_path: Path) -> None:
    _, record = owner.claim(tmp_path / "elsewhere", "namespaces")
    dead = Process(pid=1, start=1)
    foreign = msgspec.structs.replace(record, process=dead, namespace="pid:[1]")
    folder = a_folder(tmp_path / "state", foreign)
    assert foreign.standing() is Standing.FOREIGN
    assert reap(tmp_path / "state").owners == 0 and folder.exists()
    rebooted = msgspec.structs.replace(record, process=dead, boot="another")
    assert rebooted.standing() is Standing.DEAD


def test_a_folder_in_the_making_is_left_alone_and_an_old_one_not(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, None)
    assert reap(tmp_path).owners == 0 and folder.exists()
    os.utime(folder, (1, 1))
    assert reap(tmp_path).owners == 1 and not folder.exists()


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="set SILVA_SANDBOXES"):
        owner.claim(tmp_path / "file" / "state", "namespaces")


def test_labels_find_processes(tmp_path_factory: TempPathFactory) -> None:
    with subprocess.Popen(["sleep", "60"], env={"SILVA_SANDBOX": "cafe0001"}) as process:
        try:
            wait_until(lambda: labelled("cafe0001") == {process.pid}, 5)
            assert labelled("cafe000") == set()
        finally:
            process.kill()
