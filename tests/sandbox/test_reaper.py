"""Owners that are killed: what they leave is found, and removed, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
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
SECONDS = count(1_000_000_000 + 1000 * os.getpid())
"""How long what an owner runs sleeps: nothing else on the machine as long."""


class Started:
    """An owner of so many sandboxes, each with two sleepers, which are told by how long they sleep."""

    def __init__(self, name: str, state: Path, sandboxes: int) -> None:
        self.seconds, self.sandboxes, self.server = next(SECONDS), sandboxes, 0
        command = [sys.executable, str(PROGRAM), name, str(state), str(sandboxes), str(self.seconds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def wait(self) -> None:
        """Until all of them run."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        assert line and line[0] == b"ready", "the owner did not start"
        self.server = int(line[1])
        wait_until(lambda: self.sleepers() == 2 * self.sandboxes)

    def sleepers(self) -> int:
        """How many there are of what it runs."""
        found = 0
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += path.read_bytes() == f"sleep\0{self.seconds}\0".encode()
            except OSError:
                continue
        return found

    def kill(self) -> None:
        """It alone, as a machine short of memory does."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str, int], Started]]:
    """Starts owners; none of them, nor what they run, outlives the test."""
    started: list[Started] = []

    def start(name: str, sandboxes: int) -> Started:
        started.append(Started(name, tmp_path, sandboxes))
        started[-1].wait()
        return started[-1]

    yield start
    for each in started:
        each.kill()
    reap(tmp_path)


def groups_of(pid: int) -> list[Path]:
    return [path for base in Groups.find().paths for path in Path(base).glob(f"silva-{pid}-*")]


def wait_until(true: object, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until, "still there"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["namespaces", "process"])
def test_an_owner_killed_is_cleaned_up_after_by_itself(
    tmp_path: Path, start: Callable[[str, int], Started], name: str
) -> None:
    if name == "namespaces" and probe().problem:
        pytest.skip(probe().problem)
    owner = start(name, 2)
    before = survey(tmp_path)
    assert [each.standing for each in before] == [Standing.ALIVE] and len(before[0].sandboxes) == 2
    assert reap(tmp_path).owners == 0 and owner.sleepers() == 4
    owner.kill()
    wait_until(lambda: not list(tmp_path.iterdir()) and not groups_of(owner.process.pid))
    wait_until(lambda: owner.sleepers() == 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["namespaces", "process"])
def test_owner_and_fork_server_killed_leave_nothing_after_gc(
    tmp_path: Path, start: Callable[[str, int], Started], name: str
) -> None:
    if name == "namespaces" and probe().problem:
        pytest.skip(probe().problem)
    owner = start(name, 2)
    os.kill(owner.server, signal.SIGKILL)
    owner.kill()
    (left,) = survey(tmp_path)
    assert left.standing is Standing.DEAD and len(left.sandboxes) == 2
    alive = start(name, 1)
    done = reap(tmp_path)
    assert (done.owners, done.sandboxes, done.left) == (1, 2, ())
    assert groups_of(owner.process.pid) == []
    assert [each.standing for each in survey(tmp_path)] == [Standing.ALIVE]
    wait_until(lambda: owner.sleepers() == 0)
    assert alive.sleepers() == 2
    alive.kill()
    wait_until(lambda: not list(tmp_path.iterdir()))
    reap(tmp_path)
    wait_until(lambda: alive.sleepers() == 0)


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
