"""Control groups of version 2 hold a program still and let it go on, as those of version 1 do."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from silva.sandbox.cgroup import Group, _mounted
from silva.sandbox.forkserver.victims import thaw


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    mounted = _mounted("")
    if mounted is None:
        pytest.skip("no hierarchy of version 2 is mounted here")
    folder = mounted / f"silva-test-{tmp_path.name}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no group may be made in {mounted}: {error.strerror}")
    try:
        if not (folder / "cgroup.freeze").exists():
            pytest.skip("this kernel's groups of version 2 cannot be frozen")
        yield folder
    finally:
        Group({"pids": folder}).remove()


@contextlib.contextmanager
def echoing(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
        (folder / "cgroup.procs").write_text(str(program.pid))
        try:
            yield program
        finally:
            (folder / "cgroup.freeze").write_text("0")
            program.kill()


def answers(program: subprocess.Popen[bytes]) -> bytes:
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write(b"there?\n")
    return program.stdout.read(7) or b""


def test_a_program_is_held_still_and_goes_on(group: Path) -> None:
    with echoing(group) as program:
        assert answers(program) == b"there?\n"
        with Group({"pids": group}).frozen() as still:
            assert still and "frozen 1" in (group / "cgroup.events").read_text()
        assert answers(program) == b"there?\n"
        assert "frozen 0" in (group / "cgroup.events").read_text()


def test_what_an_owner_left_still_is_let_go(group: Path) -> None:
    with echoing(group) as program:
        (group / "cgroup.freeze").write_text("1")
        thaw([str(group)])
        assert answers(program) == b"there?\n"
