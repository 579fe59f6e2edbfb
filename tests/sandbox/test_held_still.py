"""An owner that is killed while it holds a sandbox still leaves nothing behind: neither by itself, nor after gc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from silva.sandbox.cgroup import Groups, members
from silva.sandbox.reaper import reap

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Groups.find().resources, reason="no control groups may be made here"),
]
FREEZES = """
import asyncio, sys
from pathlib import Path
from silva.sandbox import open_backend

async def main():
    backend = await open_backend("namespaces", state=Path(sys.argv[1]))
    sandbox = await backend.create()
    await sandbox.session("sleep 4321")
    with sandbox._group.frozen() as still:
        print(still, backend.spawner.pid, *sandbox._group.paths, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def held_still(state: Path) -> tuple[subprocess.Popen[bytes], int, list[str]]:
    owner = subprocess.Popen([sys.executable, "-c", FREEZES, str(state)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    still, server, *groups = owner.stdout.readline().decode().split()
    if still != "True":
        owner.kill()
        owner.wait()
        pytest.skip("control groups cannot be held still here")
    return owner, int(server), groups


def gone(*paths: str | Path, seconds: float = 30.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(Path(path).exists() for path in paths):
        time.sleep(0.05)
    return not any(Path(path).exists() for path in paths)


def killed(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_the_fork_server_ends_what_its_owner_held_still(tmp_path: Path) -> None:
    owner, server, groups = held_still(tmp_path / "state")
    (folder,) = (tmp_path / "state").iterdir()
    killed(owner.pid)
    owner.wait()
    assert gone(*groups, folder, f"/proc/{server}")


@pytest.mark.parametrize("folder", ["there", "gone"])
def test_gc_ends_what_owner_and_fork_server_left_held_still(tmp_path: Path, folder: str) -> None:
    state = tmp_path / "state"
    owner, server, groups = held_still(state)
    killed(server, owner.pid)
    owner.wait()
    assert members(groups)
    if folder == "gone":
        state.rename(tmp_path / "elsewhere")
    reap(state)
    assert gone(*groups, seconds=5.0) and not members(groups)


def test_a_group_of_an_owner_that_is_there_is_left_alone(tmp_path: Path) -> None:
    owner, server, groups = held_still(tmp_path / "state")
    try:
        reap(tmp_path / "another")
        assert members(groups)
    finally:
        killed(owner.pid)
        owner.wait()
        assert gone(*groups, f"/proc/{server}")
