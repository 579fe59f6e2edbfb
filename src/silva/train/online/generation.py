"""Keeps as many groups in growth as the buffer permits, until as many as the run trains were handed out.

number n ─▶ Buffer.start ─┬ admitted ─▶ Growth.group ─▶ harvest ─┬ Group ─▶ Buffer.put
                          ├ known: it is in the buffer already    └ Barren ─▶ Buffer.abandon: the next may start
                          └ none: wait for a permit (a span `held`)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from silva.errors import UsageError
from silva.train.buffer.buffer import Buffer
from silva.train.buffer.group import Group
from silva.train.buffer.refused import Refused
from silva.train.online.growth import Growth
from silva.train.online.harvest import Barren, harvest
from silva.train.online.limits import Readable, anything
from silva.train.online.publisher import ForeignVersion, Publisher
from silva.train.online.timeline import Timeline
from silva.tree import Trajectory

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

PATIENCE = 5.0
"""Seconds one call waits for a permit, or for room, before it asks again."""
LOOK = 0.2
"""Seconds between two looks whether a group was withheld, when as many as the run trains are there or under way."""

ASKED, MOST_LEFT = 100, 100_000
"""Groups named in one call, and in all, when those of an earlier part of the run are given up."""


class Generation:
    """The rollout side of a run.

    Args:
        growth: grows groups.
        buffer: permits them, and takes them.
        publisher: tells the number of a version.
        algorithm: scores them.
        wanted: groups the whole run trains.
        most_barren: so many in a row that nothing can be learnt from end the run.
        timeline: told when generation is held.
        readable: refuses samples that cannot be trained on.
    """

    def __init__(
        self,
        growth: Growth,
        buffer: Buffer,
        publisher: Publisher,
        algorithm: Algorithm,
        *,
        wanted: int,
        most_barren: int,
        timeline: Timeline,
        readable: Readable = anything,
    ) -> None:
        self._growth, self._buffer, self._publisher, self._algorithm = growth, buffer, publisher, algorithm
        self._wanted, self._most_barren, self._timeline = wanted, most_barren, timeline
        self._readable = readable
        self._growing: set[asyncio.Task[None]] = set()
        self._in_a_row = 0
        self.barren: Counter[str] = Counter()

    async def run(self) -> None:
        """Grow until every group the run trains was handed out: one that is there and waits may still become too old,
        and then another has to take its place.

        Raises:
            UsageError: too many groups in a row gave nothing, or somebody else serves what this run should.
            UnreachableError, Spent, StoreError, Refused: as growth and buffer say.
        """
        number = 0
        await self._let_go()
        try:
            while True:
                status = await self._buffer.status()
                if status.delivered >= self._wanted:
                    return
                if status.delivered + status.ready + status.in_flight >= self._wanted:
                    await self._settle(LOOK)
                    continue
                name = str(number)
                admission = await self._permit(name)
                if name in admission:
                    if admission[name]:
                        task = asyncio.create_task(self._grow(number, name), name=f"group {name}")
                        self._growing.add(task)
                    number += 1
                await self._settle(0.0)
        finally:
            for task in self._growing:
                task.cancel()
            await asyncio.gather(*self._growing, return_exceptions=True)

    async def _let_go(self) -> None:
        """Give up the groups that were in growth when an earlier part of the run ended, in whose places others may come
        first now; those that are still wanted start again. Left in flight they would hold permits, and count as on
        their way, with nobody growing them."""
        first = 0
        while first < MOST_LEFT and (await self._buffer.status()).in_flight:
            await self._buffer.abandon([str(number) for number in range(first, first + ASKED)])
            first += ASKED

    async def _permit(self, name: str) -> dict[str, bool]:
        """Whether the group may grow (True) or is known (False); empty where it must wait."""
        admission = await self._ask(name, 0.0)
        if not admission:
            start = self._timeline.now()
            asked = asyncio.create_task(self._ask(name, PATIENCE))
            try:
                # A group that fails must end the run, also while the next one waits.
                while not asked.done():
                    await asyncio.wait({asked, *self._growing}, return_when=asyncio.FIRST_COMPLETED)
                    await self._settle(0.0)
                admission = asked.result()
            finally:
                asked.cancel()
            self._timeline.add("held", start)
        return admission

    async def _ask(self, name: str, wait: float) -> dict[str, bool]:
        try:
            admission = await self._buffer.start([name], wait=wait)
        except Refused as refused:
            if refused.kind != "full":
                raise
            return {}
        return {**dict.fromkeys(admission.known, False), **dict.fromkeys(admission.admitted, True)}

    async def _settle(self, wait: float) -> None:
        """Let go of what has grown, after that many seconds at most; raise what went wrong."""
        if not self._growing:
            await asyncio.sleep(wait)
            return
        done, self._growing = await asyncio.wait(self._growing, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _grow(self, number: int, name: str) -> None:
        again = self._growth.remembers(number)
        trajectories = await self._growth.group(number, name)
        found = await self._harvest(name, trajectories)
        if isinstance(found, Barren):
            self.barren[found.reason] += 1
            self._in_a_row += not again
            await self._buffer.abandon([name])
            if self._in_a_row >= self._most_barren:
                raise UsageError(
                    f"{self._in_a_row} groups in a row gave nothing to learn from, the last because: {found.reason}; "
                    "see the run's trajectories (most_barren bounds how many)"
                )
            return
        self._in_a_row = 0
        while True:
            try:
                await self._buffer.put(found, wait=PATIENCE)
                break
            except Refused as refused:
                if refused.kind != "full":
                    raise

    async def _harvest(self, name: str, trajectories: Sequence[Trajectory]) -> Group | Barren:
        given = (name, self._growth.lake, trajectories, self._algorithm, self._publisher.number, self._readable)
        try:
            return await asyncio.to_thread(harvest, *given)
        except ForeignVersion as foreign:
            # Drawn before this run took its place back? Then only this group is lost; else every later one would be.
            await self._publisher.confirm()
            return Barren(reason=str(foreign))
