"""Programs that do harm: each ends with a clear line, the neighbour notices nothing, nothing is left."""

from __future__ import annotations

import asyncio

import pytest

from silva.errors import SilvaError
from silva.sandbox.capabilities import Held
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec
from silva.sandbox.result import Killed

pytestmark = pytest.mark.slow

SMALL = Spec(limits=Limits(memory=128 * MIB, disk=32 * MIB, processes=64, flood=8 * MIB, wall=30))

CASES = {
    "fork bomb in front": (":(){ :|:& };:; sleep 20", Killed.PROCESSES, "kept starting more than the sandbox's 64"),
    "fork bomb behind": ("(:(){ :|:& };:) & sleep 20", Killed.PROCESSES, "kept starting more than"),
    "memory": ("python3 -c 'x=[b\"a\"*10**6 for _ in range(10**4)]'", Killed.MEMORY, "134,217,728 bytes of memory"),
    "memory of many": (
        'for i in 1 2 3 4 5 6; do python3 -c \'x=b"a"*(60<<20); import time; time.sleep(5)\' & p="$p $!"; done;'
        " for i in $p; do wait $i || exit 9; done",
        Killed.MEMORY,
        "of memory",
    ),
    "shared memory is memory or full": ("head -c 1G /dev/zero > /dev/shm/x; sleep 1", None, ""),
    "disk by many files": ("i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i+1)); done", Killed.DISK, "of disk"),
    "disk in tmp": ("i=0; while :; do head -c 1M /dev/zero > /tmp/f$i; i=$((i+1)); done", Killed.DISK, "of disk"),
    "flood": ("cat /dev/urandom", Killed.OUTPUT, "printed more than 8,388,608 bytes"),
    "flood of errors": ("cat /dev/zero >&2", Killed.OUTPUT, "printed more than"),
    "ignores signals": ("trap '' TERM INT HUP QUIT; while :; do sleep 1; done", Killed.TIME, "longer than"),
    "hides from its session": (
        "setsid sh -c 'setsid sleep 1000 & setsid sleep 1000' & sleep 1000",
        Killed.TIME,
        "longer",
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_ends_with_a_clear_line(backend: Namespaces, name: str) -> None:
    script, why, said = CASES[name]
    neighbour, sandbox = await backend.create(), await backend.create(SMALL)
    session = await neighbour.session("read x; echo heard $x")
    done = await asyncio.wait_for(sandbox.exec(script, seconds=2 if why is Killed.TIME else 20), 40)
    if name == "memory" and backend.capabilities().limits["memory"] is not Held.CGROUP:
        assert done.code == 1 and done.stderr.endswith(b"MemoryError\n")  # the process itself is refused the memory
        return
    assert done.killed is why and said in done.reason, (done.killed, done.reason, done.stderr[-200:])
    # It can be used again, and nothing of the command is left.
    await sandbox.exec("rm -rf /tmp/* ./*")
    for _ in range(200):  # what the kernel spared of many ends by itself
        left = (await sandbox.exec("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")).text
        if "1000" not in left.replace("2000000000", "") and ":|:" not in left and "python3" not in left:
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError(left)
    await session.send("me\n")
    assert await session.until("heard me")


async def test_deleting_the_root_deletes_its_own_files_only(backend: Namespaces) -> None:
    sandbox = await backend.create()
    await sandbox.exec("echo mine > a")
    kept = await sandbox.checkpoint()
    gone = await sandbox.exec(
        "rm -rf --no-preserve-root /workspace /home /tmp /etc /bin / 2>/dev/null; true", seconds=60
    )
    assert gone.killed in (None, Killed.TIME)
    assert (await sandbox.exec("ls /workspace /usr/bin/env; test -e /etc/passwd")).text.startswith("/usr/bin/env")
    await sandbox.restore(kept)
    assert await sandbox.get("a") == b"mine\n"


@pytest.mark.parametrize(
    "script",
    ["kill -9 -1; sleep 5", "kill -9 1 0; kill -15 1; kill -2 1", "exec 0<&- 1>&- 2>&-; kill -9 $$", "kill -STOP -1"],
)
async def test_closing_its_own_session(backend: Namespaces, script: str) -> None:
    sandbox = await backend.create()
    done = await asyncio.wait_for(sandbox.exec(script, seconds=3), 20)
    assert done.seconds < 10
    assert (await sandbox.exec("echo alive")).text == "alive\n"


async def test_output_held_open_in_the_background_does_not_hold_up_the_command(backend: Namespaces) -> None:
    sandbox = await backend.create()
    done = await sandbox.exec("sleep 1000 & echo started")
    assert done.text == "started\n" and done.seconds < 5
    assert "sleep 1000" in (await sandbox.exec("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; done")).text


async def test_folders_deeper_than_anyone_walks_are_removed(backend: Namespaces) -> None:
    sandbox = await backend.create()
    script = "import os\nfor _ in range(3000):\n os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"
    assert (await sandbox.exec(["python3", "-c", script])).ok
    await sandbox.destroy()
    assert list(backend.folder.glob(f"{sandbox.id}*")) == []


async def test_a_full_sandbox_says_so(backend: Namespaces) -> None:
    sandbox = await backend.create(Spec(limits=Limits(processes=8)))
    script = (
        "import subprocess,time\nwhile True:\n try: subprocess.Popen(['sleep','100'])\n except OSError: break\n"
        "print('full', flush=True); time.sleep(100)"
    )
    session = await sandbox.session(["python3", "-c", script])
    assert await session.until("full")
    try:
        done = await sandbox.exec("/bin/true; /bin/true; /bin/true & /bin/true", seconds=10)
    except SilvaError as error:
        assert "as many processes as it may" in str(error) or "no process can be started" in str(error)
    else:
        assert b"fork" in done.stderr and done.code != 0
    await session.kill()
    assert (await sandbox.exec("echo free")).text == "free\n"
