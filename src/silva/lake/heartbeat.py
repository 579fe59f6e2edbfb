"""A run's heartbeat: that whoever grows it is there, and where, in a small file beside the lake's journal.

    run ─ every EVERY seconds ─▶ alive/RUN.json: process, machine, time ─▶ read_beat ─▶ fresh? old? its process gone?

It is written by the loop that plays the episodes, so a loop that hangs goes silent, too. It decides nothing: what was
done stands in the journal, and whether a lake may be written is the lock's affair.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from silva.lake.place import place

EVERY = 2.0
"""Seconds from beat to beat."""
OLD = 15.0
"""Seconds after which a beat is too old: its run does not answer, whatever the machine is busy with."""


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """One beat. `born` is when its process began (clock ticks since the machine did), so that another process of the
    same number is known as another; `machine` names the table of processes in which `pid` means something."""

    run: str
    pid: int
    born: int
    machine: str
    at: float

    def old(self, now: float) -> bool:
        """Whether nothing was heard for too long; `now` in Unix seconds."""
        return now - self.at > OLD

    def gone(self) -> bool | None:
        """Whether its process is no more; None where it is another machine's, and cannot be seen from here."""
        if self.machine != _machine():
            return None
        return born_of(self.pid) != self.born


@contextlib.asynccontextmanager
async def beating(location: str, run: str) -> AsyncIterator[None]:
    """Beat until the end of the block; the last beat stays where the block ends by an error or not at all."""
    path = _path(beats_of(location), run)
    task = asyncio.create_task(_beat(path, run), name="silva-heartbeat")
    try:
        yield
        path.unlink(missing_ok=True)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def beats_of(location: str) -> Path:
    """The folder of a lake's heartbeats."""
    return place(location).journal.parent / "alive"


def read_beat(folder: Path, run: str) -> Beat | None:
    """The last beat of a run; None where it has none (it ended, or has never beaten).

    Args:
        folder: from `beats_of`.
        run: its name.
    """
    try:
        return msgspec.json.decode(_path(folder, run).read_bytes(), type=Beat)
    except (OSError, msgspec.DecodeError):
        return None


async def _beat(path: Path, run: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    while True:
        beat = Beat(run=run, pid=os.getpid(), born=born_of(os.getpid()), machine=_machine(), at=time.time())
        with contextlib.suppress(OSError):  # a full disk is told by the journal; a beat that is missed, by its age
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(beat))
            draft.replace(path)
        await asyncio.sleep(EVERY)


def _path(folder: Path, run: str) -> Path:
    name = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return folder / f"{name}.json"


def born_of(pid: int) -> int:
    """When a process began; 0 where there is none, or it is only not yet buried."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0 if Path("/proc/self").exists() else _signalled(pid)
    return 0 if fields[0] in "ZX" else int(fields[19])


def _signalled(pid: int) -> int:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return 0
    except PermissionError:
        return 1
    return 1


def _machine() -> str:
    """This boot of this machine and its table of processes, by no name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        table = Path("/proc/self/ns/pid").readlink()
    except OSError:
        boot, table = f"{os.uname().nodename}", Path("-")
    return hashlib.sha256(f"{boot} {table}".encode()).hexdigest()[:16]
