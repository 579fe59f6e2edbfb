"""Looking after limits that the kernel does not hold: disk always, memory where no control group may be made. What
forks without end, the kernel keeps at its limit; it is ended here.

One task looks at all sandboxes of a backend in which something runs, four times a second, less often where looking
takes long or nothing was started for a minute. A burst between two looks passes a limit before it is seen; what it took
is bounded by the time between.

What counts as disk: the blocks below the folders, one page at least for everything that has a name; and, once a second,
files without a name that some process holds open or mapped (`silva.sandbox.nameless`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Protocol

from silva.sandbox.limits import Limits
from silva.sandbox.nameless import nameless
from silva.sandbox.result import Killed
from silva.sandbox.walk import TooDeep, blocks

_PAUSE = 0.25
_LINGER = 60.0
_SELDOM = 2.0
"""Seconds between two looks where nothing was started lately, and between two at files without names."""
_BOMB = 50
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watchable(Protocol):
    """As much of a sandbox as is looked after."""

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        ...

    @property
    def busy(self) -> bool:
        """Whether something runs in it."""
        ...

    @property
    def touched(self) -> float:
        """When something was last started in it, by the monotonic clock."""
        ...

    @property
    def limits(self) -> Limits:
        """What it may use."""
        ...

    def processes(self) -> set[int]:
        """The processes in it, by their ids here."""
        ...

    def refused_processes(self) -> int | None:
        """How often the kernel has refused it a process; None where nobody counts."""
        ...

    async def end_programs(self, why: Killed, reason: str) -> None:
        """Kill everything in it but itself."""
        ...


class _Watched:
    def __init__(self, memory: bool, folders: list[Path], namespace: int, used: int) -> None:
        self.memory = memory
        self.folders = folders
        self.namespace = namespace
        self.refused: int | None = None
        self.crowded = 0
        self.looked = self.searched = 0.0
        self.nameless = 0
        self.highest = used
        """What was on disk when it was last told off: only growing further is punished again."""


class Watch:
    """Watches the sandboxes of one backend."""

    def __init__(self) -> None:
        self._watched: dict[Watchable, _Watched] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, sandbox: Watchable, memory: bool, folders: list[Path], namespace: int) -> None:
        """Watch what is written below `folders`, and the memory of the processes of a pid namespace if asked."""
        self._watched[sandbox] = _Watched(memory, folders, namespace, sandbox.limits.disk)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look())

    def drop(self, sandbox: Watchable) -> None:
        """Watch it no longer."""
        self._watched.pop(sandbox, None)

    def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()

    async def _look(self) -> None:
        while True:
            began = time.perf_counter()
            for sandbox, watched in list(self._watched.items()):
                if _active(sandbox) or (sandbox.alive and began > watched.looked + _SELDOM):
                    watched.looked = began
                    await self._disk(sandbox, watched)
                    await self._processes(sandbox, watched)
            if any(watched.memory for sandbox, watched in self._watched.items() if _active(sandbox)):
                await self._memory()
            await asyncio.sleep(max(_PAUSE, 5 * (time.perf_counter() - began)))

    async def _disk(self, sandbox: Watchable, watched: _Watched) -> None:
        used = await asyncio.to_thread(usage, watched.folders)
        if time.perf_counter() > watched.searched + _SELDOM:
            watched.nameless = await asyncio.to_thread(nameless, sandbox.processes())
            watched.searched = time.perf_counter()
        used += watched.nameless
        limit = sandbox.limits.disk
        if used <= limit:
            watched.highest = limit
        elif used > watched.highest and sandbox in self._watched:
            watched.highest = used
            await sandbox.end_programs(Killed.DISK, f"killed: the sandbox wrote more than its {limit:,} bytes of disk")

    async def _processes(self, sandbox: Watchable, watched: _Watched) -> None:
        refused = sandbox.refused_processes()
        before, watched.refused = watched.refused, refused
        if refused is not None and before is not None and refused > before + _BOMB and sandbox.alive:
            await self._bomb(sandbox)

    async def _bomb(self, sandbox: Watchable) -> None:
        most = sandbox.limits.processes
        await sandbox.end_programs(
            Killed.PROCESSES, f"killed: it kept starting more than the sandbox's {most} processes"
        )

    async def _memory(self) -> None:
        used = await asyncio.to_thread(resident)
        for sandbox, watched in list(self._watched.items()):
            if not watched.memory or not sandbox.alive:
                continue
            limit = sandbox.limits.memory
            memory, processes = used.get(watched.namespace, (0, 0))
            watched.crowded = watched.crowded + 1 if processes > sandbox.limits.processes else 0
            if memory > limit:
                reason = f"killed: the sandbox used more than its {limit:,} bytes of memory"
                await sandbox.end_programs(Killed.MEMORY, reason)
            elif watched.crowded > 2:
                await self._bomb(sandbox)


def _active(sandbox: Watchable) -> bool:
    """Whether something runs in it, or was started not long ago and may have left something running."""
    return sandbox.alive and (sandbox.busy or time.monotonic() - sandbox.touched < _LINGER)


def usage(folders: list[Path]) -> int:
    """Bytes on disk below folders; no end of them where they are nested deeper than can be looked at."""
    try:
        return sum(blocks(folder) for folder in folders)
    except TooDeep:
        return sys.maxsize
    except OSError:
        return 0  # it is gone


def within(namespace: int) -> set[int]:
    """The processes of a pid namespace, by their ids here."""
    found: set[int] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - as below
        if name.isdigit():
            with contextlib.suppress(OSError):
                if int(os.readlink(f"/proc/{name}/ns/pid")[5:-1]) == namespace:  # noqa: PTH115
                    found.add(int(name))
    return found


def resident() -> dict[int, tuple[int, int]]:
    """Bytes of memory and processes by pid namespace; pages backed by files or shared are not counted."""
    total: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of entries, four times a second
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                namespace = int(os.readlink(f"/proc/{name}/ns/pid")[5:-1])  # noqa: PTH115 - no file stands behind it
                with open(f"/proc/{name}/statm", "rb") as statm:  # noqa: PTH123 - as above
                    _, present, shared, *_ = map(int, statm.read().split())
                memory, processes = total.get(namespace, (0, 0))
                total[namespace] = memory + (present - shared) * _PAGE, processes + 1
    return total
