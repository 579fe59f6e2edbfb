"""Control groups made before they are needed, each with a deputy of the fork server sitting in it.

    Slots ─▶ a few spare ─▶ take(limits): bounds set, another is made behind the caller's back ─▶ Slot of one sandbox
                 ▲───────────────────────── give back: its processes are gone ──────────────────────────┘

A spare one has the bounds that were last asked for, so that as a rule there is nothing to set.
To join a control group the kernel takes some 20 ms, more than all else that a sandbox's start needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time

from silva.errors import SilvaError
from silva.sandbox.cgroup import Group, Groups, members
from silva.sandbox.limits import Limits
from silva.sandbox.spawner import Child, Spawner

_SPARE = 3
_MOST_SPARE = 8


class Slot:
    """A control group with a deputy in it."""

    def __init__(self, group: Group, limits: Limits, deputy: Child, spawner: Spawner) -> None:
        self.group = group
        self.limits = limits
        self.deputy = deputy
        self._spawner = spawner

    def clear(self) -> None:
        """Kill what is in the group besides the deputy. Waits until it is gone, a second at most."""
        until = time.monotonic() + 1
        while (left := members(self.group.paths) - {self.deputy.pid}) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    async def close(self) -> None:
        """Send the deputy away and remove the group."""
        with contextlib.suppress(SilvaError):
            await self._spawner.dismiss(self.deputy)
        await asyncio.to_thread(self.group.remove)


class Slots:
    """The slots of one backend; none where no control groups may be made."""

    def __init__(self, spawner: Spawner, groups: Groups) -> None:
        self._spawner = spawner
        self._groups = groups
        self._names = itertools.count(1)
        self._usual = Limits()
        self._making: list[asyncio.Task[Slot]] = []
        self._spare: list[Slot] = []
        if groups.resources:
            self._fill()

    async def take(self, limits: Limits) -> Slot | None:
        """A slot with these bounds; None where there are no control groups.

        Raises:
            SilvaError: it cannot be made.
        """
        if not self._groups.resources:
            return None
        slot = await self._free()
        if slot.limits != limits:
            self._usual = limits  # those of the next are set before it is asked for
            try:
                slot.group.limit(limits)
            except OSError as error:
                await slot.close()
                raise SilvaError(f"the bounds of a sandbox cannot be set: {error}") from error
            slot.limits = limits
        return slot

    async def give_back(self, slot: Slot) -> None:
        """Have a slot back whose sandbox has ended."""
        if len(self._spare) < _MOST_SPARE and not slot.deputy.ended.done() and slot.group.only(slot.deputy.pid):
            self._spare.append(slot)
        else:
            await slot.close()

    async def _free(self) -> Slot:
        while self._spare:
            slot = self._spare.pop()
            if not slot.deputy.ended.done():
                return slot
            await slot.close()
        ready = next((task for task in self._making if task.done()), None)
        task = ready or (self._making[0] if self._making else None)
        if task is not None:
            self._making.remove(task)
        self._fill()
        return await (task if task is not None else self._make())

    async def close(self) -> None:
        """Let go of those nobody took."""
        made, self._making = self._making, []
        for found in await asyncio.gather(*made, return_exceptions=True):
            if isinstance(found, Slot):
                await found.close()
        spare, self._spare = self._spare, []
        await asyncio.gather(*(slot.close() for slot in spare))

    def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        while len(self._making) + len(self._spare) < _SPARE:
            self._making.append(loop.create_task(self._make()))

    async def _make(self) -> Slot:
        try:
            usual = self._usual
            group = self._groups.make(f"s{next(self._names)}", usual)
        except OSError as error:
            raise SilvaError(f"no control group can be made for a sandbox: {error}") from error
        try:
            return Slot(group, usual, await self._spawner.deputy(group.joins), self._spawner)
        except BaseException:
            group.remove()
            raise
