"""Process 1 of a sandbox: what it does, what it says while it starts, and ids of processes as it sees them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from silva.sandbox.spawner import Child

READY = b"ready\n"
_START_SECONDS = 30
HOLDER = "echo ready; exec </dev/null >/dev/null 2>&1 3>&- 5>&-; while :; do sleep 2000000000 & wait $!; done"
"""Process 1: it waits, and buries those whose parents have gone. The kernel shields it from what runs inside."""


async def said(fd: int, child: Child) -> bytes:
    """What the first process says until it is ready or gone."""
    os.set_blocking(fd, False)
    loop = asyncio.get_running_loop()
    said = bytearray()
    done = loop.create_future()

    def read() -> None:
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return
        said.extend(data)
        if (not data or said.endswith(READY)) and not done.done():
            done.set_result(None)

    loop.add_reader(fd, read)
    try:
        await asyncio.wait_for(done, _START_SECONDS)
    except TimeoutError:
        said.extend(f"it was not ready after {_START_SECONDS} s\n".encode())
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return bytes(said)


def complaint(said: bytes) -> str:
    """The first line that is no more than words."""
    lines = [line for line in said.decode(errors="replace").splitlines() if line and line[0] not in '{}" ']
    return lines[0].removeprefix("silva: ") if lines else "bubblewrap ended without a word"


def inner(pid: int) -> int:
    """A process's id as seen inside its sandbox; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0
