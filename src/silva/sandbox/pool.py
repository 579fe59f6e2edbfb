"""Many sandboxes on one machine: no more at once than it has room for, some ready before they are asked for.

take ─▶ room by memory, processors and number ─▶ a ready one, or a new one ─▶ … ─▶ given back: destroyed
           └ none: wait in line, first come first served; refused at once where it can never fit, or after `wait`
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

from silva.errors import SilvaError, UsageError
from silva.sandbox.limits import MIB
from silva.sandbox.protocol import Backend, Sandbox, Spec
from silva.tree import Record


class Room(Record, frozen=True, kw_only=True):
    """What a pool may use: bytes of memory, processors, sandboxes.

    Few sandboxes use all they may at once, so both may be promised more than once: see `Room.here`.
    """

    memory: int
    cpus: float
    sandboxes: int = 10_000

    @classmethod
    def here(cls, *, share: float = 0.8, overcommit: float = 2.0, cpu_overcommit: float = 16.0) -> Room:
        """A share of this machine's free memory and its processors, each promised several times over."""
        free = available_memory()
        cpus = len(os.sched_getaffinity(0))
        return cls(memory=int(free * share * overcommit), cpus=cpus * cpu_overcommit)


class Pool:
    """Sandboxes of one spec from one backend.

    Args:
        backend: opened; closed by its opener.
        spec: what each is to be.
        room: what all may use together; `Room.here()` when left out.
        warm: how many are kept ready.

    Raises:
        UsageError: not even one fits.
    """

    def __init__(self, backend: Backend, spec: Spec | None = None, *, room: Room | None = None, warm: int = 0) -> None:
        self._backend = backend
        self._spec = spec or Spec()
        self._room = room or Room.here()
        limits = self._spec.limits.checked()
        self.most = min(self._room.memory // limits.memory, int(self._room.cpus / limits.cpus), self._room.sandboxes)
        if self.most < 1:
            raise UsageError(
                f"no sandbox of {limits.memory // MIB:,} MiB and {limits.cpus:g} processors fits into"
                f" {self._room.memory // MIB:,} MiB and {self._room.cpus:g} processors: lower the limits"
            )
        self._warm = min(warm, self.most)
        self._ready: deque[Sandbox] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._out = 0
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def out(self) -> int:
        """How many are in use."""
        return self._out

    @property
    def ready(self) -> int:
        """How many stand ready."""
        return len(self._ready)

    async def fill(self) -> None:
        """Make those that are to be kept ready. Raises as `Backend.create`."""
        while not self._closed and len(self._ready) < self._warm and self._out + len(self._ready) < self.most:
            sandbox = await self._backend.create(self._spec)
            if self._closed:
                await sandbox.destroy()
            else:
                self._ready.append(sandbox)

    @contextlib.asynccontextmanager
    async def take(self, *, wait: float | None = None) -> AsyncIterator[Sandbox]:
        """A sandbox for the length of a block; destroyed after it.

        Args:
            wait: seconds to wait for room; without end when left out, 0 for not at all.

        Raises:
            SilvaError: there was no room in time; or as `Backend.create`.
        """
        await self._admitted(wait)
        sandbox = None
        try:
            sandbox = self._ready.popleft() if self._ready else await self._backend.create(self._spec)
            self._refill()
            yield sandbox
        finally:
            try:
                if sandbox is not None:
                    await asyncio.shield(sandbox.destroy())
            finally:
                self._out -= 1
                self._next()
                self._refill()

    async def close(self) -> None:
        """Destroy those that stand ready, and let nobody in any more."""
        self._closed = True
        if self._filling is not None:
            await asyncio.gather(self._filling, return_exceptions=True)
        while self._ready:
            await self._ready.popleft().destroy()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(SilvaError("the pool of sandboxes is closed"))

    async def _admitted(self, wait: float | None) -> None:
        if self._closed:
            raise SilvaError("the pool of sandboxes is closed")
        if self._out < self.most and not self._waiting:
            self._out += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            # Shielded: a turn that is given in the very moment the wait ends must not be lost.
            await asyncio.wait_for(asyncio.shield(turn), wait)
        except BaseException as error:
            self._withdraw(turn)
            if isinstance(error, TimeoutError):
                raise SilvaError(
                    f"no room for another sandbox within {wait:g} s: {self._out} of {self.most} are in use, and"
                    f" {len(self._waiting)} others wait"
                ) from None
            raise

    def _withdraw(self, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.done() and not turn.cancelled() and turn.exception() is None:
            self._out -= 1
            self._next()
        if not turn.done():
            turn.cancel()

    def _next(self) -> None:
        while self._waiting and self._out < self.most and not self._closed:
            turn = self._waiting.popleft()
            if not turn.done():
                self._out += 1
                turn.set_result(None)

    def _refill(self) -> None:
        idle = self._filling is None or self._filling.done()
        if self._warm and not self._closed and idle:
            self._filling = asyncio.get_running_loop().create_task(self._filled())

    async def _filled(self) -> None:
        with contextlib.suppress(SilvaError):  # whoever takes one next meets the same error, and hears of it
            await self.fill()


def available_memory() -> int:
    """Bytes that could be used now without swapping: the machine's, or what a control group leaves if less."""
    found = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            found = int(line.split()[1]) << 10
    for maximum, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(Path(maximum).read_text()) - int(Path(used).read_text()))
    return max(found, 0)
