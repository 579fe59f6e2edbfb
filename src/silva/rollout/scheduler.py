"""Keeps `pool` episodes in flight until every slot has ended, or someone says stop.

    FairQueue ─▶ worker ─▶ Episode ─▶ Trajectory (durable) ─▶ Ledger, observers ─▶ next slot, or the same one again

Stopping has two strengths. `drain()` starts nothing new and lets episodes end. `stop()` cancels them: every turn
already acknowledged is in the journal, and a resumed run goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from silva.rollout.agent import AgentFor
from silva.rollout.config import RolloutConfig
from silva.rollout.episode import Episode
from silva.rollout.guided import Guidance
from silva.rollout.guided_episode import ReturnedEpisode
from silva.rollout.guided_nodes import BACK
from silva.rollout.guided_return import start_of
from silva.rollout.journal import Journal
from silva.rollout.ledger import Ledger
from silva.rollout.path import Path
from silva.rollout.queue import FairQueue
from silva.rollout.slots import Remembered, Slot
from silva.tree import Trajectory

if TYPE_CHECKING:
    from silva.rollout.doorway import Doorway

PACE = 0.001
"""Seconds between the first starts: a thousand agents that begin at one moment stay in step, and wait for one another
at every turn (5 % longer with a model of 1 s; benchmarks/agents1000.py)."""


class Store(Journal, Protocol):
    """The part of the lake an engine writes to."""

    async def put_blob(self, data: bytes, media_type: str = ...) -> str:
        """Store bytes; return their sha256."""
        ...


class Scheduler:
    """Runs slots. `lease(name)` is an async context manager of a live environment, `agent_for(env)` an agent for it.
    `elsewhere(slot)`, where given, plays an episode in the place of both and keeps what comes of it. `guidance`, where
    given, is what people say to episodes that are played here."""

    def __init__(
        self,
        config: RolloutConfig,
        queue: FairQueue,
        store: Store,
        ledger: Ledger,
        remembered: Remembered,
        lease: Callable[[str], AbstractAsyncContextManager[Any]],
        agent_for: AgentFor,
        on_end: Callable[[Trajectory], None] = lambda _: None,
        doorway: Doorway | None = None,
        elsewhere: Callable[[Slot], Awaitable[Trajectory]] | None = None,
        guidance: Guidance | None = None,
    ) -> None:
        self._config = config
        self._queue = queue
        self._store = store
        self._ledger = ledger
        self._remembered = remembered
        self._lease = lease
        self._agent_for = agent_for
        self._on_end = on_end
        self._doorway = doorway
        self._elsewhere = elsewhere
        self._guidance = guidance
        self._changed = asyncio.Condition()
        self._draining = False
        self._workers: list[asyncio.Task[None]] = []
        self.trajectories: list[Trajectory] = []

    @property
    def draining(self) -> bool:
        """Whether nothing new is started any more."""
        return self._draining

    @property
    def running(self) -> int:
        """Episodes in flight."""
        return self._queue.running

    @property
    def waiting(self) -> int:
        """Slots not begun."""
        return self._queue.waiting

    def drain(self) -> None:
        """Start nothing new; episodes in flight run to their end."""
        self._draining = True
        self._wake_soon()

    def stop(self) -> None:
        """Cancel the episodes in flight. What was acknowledged is kept."""
        self._draining = True
        for worker in self._workers:
            worker.cancel()

    async def run(self) -> None:
        """Run until no slot is left or a stop was asked for.

        Raises:
            StoreError: the lake can keep nothing more; what it acknowledged is kept.
        """
        count = min(self._config.pool, self._queue.waiting)
        self._workers = [asyncio.create_task(self._work(place * PACE)) for place in range(count)]
        try:
            done, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION) if count else (set(), None)
            fault = next((w.exception() for w in done if not w.cancelled() and w.exception()), None)
            if fault is not None:
                raise fault
            await asyncio.gather(*self._workers, return_exceptions=True)
        finally:
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self, pause: float) -> None:
        await asyncio.sleep(pause)
        while (slot := await self._next()) is not None:
            try:
                await self._run_slot(slot)
            finally:
                self._queue.done(slot.env)
                await self._wake()

    async def _next(self) -> Slot | None:
        while True:
            if self._draining or self._ledger.overdrawn() is not None:
                return None
            slot = self._queue.take()
            if slot is not None:
                return slot
            if not self._queue.waiting and not self._queue.running:
                return None
            async with self._changed:
                if self._queue.take_would_wait() and not self._draining:
                    await self._changed.wait()

    async def _run_slot(self, slot: Slot) -> None:
        if self._elsewhere is not None:
            trajectory = await self._elsewhere(slot)
        else:
            trajectory = await (self._turns(slot) if self._doorway is None else self._program(slot, self._doorway))
        self.trajectories.append(trajectory)
        self._ledger.add(trajectory)
        if trajectory.superseded:
            self._queue.again(slot.retried())
        if self._ledger.hopeless:
            self._draining = True
        self._on_end(trajectory)

    async def _turns(self, slot: Slot) -> Trajectory:
        """An episode of an agent that takes its turns here."""
        path = Path(
            self._store,
            self._config.run,
            slot.tree_id,
            slot.name,
            self._remembered.written[slot.tree_id],
            self._remembered.walk(slot),
        )
        given = (self._config, slot, path, self._ledger.overdrawn, self._guidance)
        start = start_of(self._remembered, slot)
        roles = self._remembered.roles(slot)
        episode = Episode(*given, stored=roles) if start is None else ReturnedEpisode(*given, start)
        trajectory = await episode.run(
            self._lease(slot.env), self._agent_for, self._store, lambda: self._lease(slot.env)
        )
        await episode.finish(trajectory)
        if BACK in trajectory.attributes:
            self._remembered.leave(trajectory, [*path.walk, *path.summaries.values()])
        return trajectory

    async def _program(self, slot: Slot, doorway: Doorway) -> Trajectory:
        """An episode of an agent that is a program. One that was cut off cannot be taken up again: it ends as it is,
        and the next attempt takes its place."""
        from silva.rollout.program import ProgramEpisode, cut_off

        if self._remembered.walk(slot):
            trajectory = cut_off(self._config, slot)
        else:
            episode = ProgramEpisode(self._config, slot, doorway, self._ledger.overdrawn)
            trajectory = await episode.run(self._lease(slot.env))
        await self._store.submit([trajectory])
        return trajectory

    async def _wake(self) -> None:
        over = self._draining or not (self._queue.waiting or self._queue.running)
        async with self._changed:
            # One place came free, so one waiting worker can use it; when all is over, every one must see it.
            self._changed.notify(len(self._workers) if over else 1)

    def _wake_soon(self) -> None:
        asyncio.get_running_loop().create_task(self._wake())
