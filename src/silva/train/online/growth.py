"""Grows the groups of an online run with the rollout engine: one lake, one run, one pool of lanes.

    group's places ─▶ a lane each, as lanes come free ─▶ Scheduler of that place (retries, replay) ─▶ trajectories
                                                            └ hosts, model, lake, ledger are shared by all

A place that ended in an earlier part of the run is not grown again, one that was cut off goes on from its last turn;
one that failed at the model or through infrastructure is tried again, for what was broken then may be mended now.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from silva.envs import HostPool, Registry
from silva.errors import Exit, SilvaError, UnreachableError, UsageError
from silva.lake import Lake
from silva.models.model import Model
from silva.rollout.agent import Agent, ToolAgent
from silva.rollout.config import RolloutConfig
from silva.rollout.ledger import Ledger
from silva.rollout.queue import FairQueue
from silva.rollout.react import ReActAgent
from silva.rollout.run import capacity, host_pool, new_run
from silva.rollout.scheduler import Scheduler
from silva.rollout.slots import Remembered, Slot
from silva.rollout.tasks import choose_tasks
from silva.train.online.order import Order
from silva.train.online.timeline import Timeline
from silva.tree import Boundary, Run, Trajectory

TRIED_AGAIN = frozenset({Boundary.MODEL.value, Boundary.INFRASTRUCTURE.value})
"""Where a place failed that a resumed run tries again: at nothing the policy or the environment did."""


class Spent(SilvaError):
    """The run's budget is spent; what was grown is kept."""

    code = Exit.INCOMPLETE


class Growth:
    """See the module. Made by `open_growth`.

    Attributes:
        order: which group is which.
        ledger: what was spent.
        run: the run's record; its status when the growth is closed is what the lake keeps.
    """

    def __init__(
        self,
        config: RolloutConfig,
        lake: Lake,
        model: Model,
        pools: dict[str, HostPool],
        order: Order,
        remembered: Remembered,
        run: Run,
        timeline: Timeline,
    ) -> None:
        self.lake, self.order, self.run = lake, order, run
        self.ledger = Ledger(config.budget, remembered.ended)
        self._config, self._pools, self._remembered, self._timeline = config, pools, remembered, timeline
        self._agent = ReActAgent(model) if config.agent == "react" else ToolAgent(model)
        self._rooms = {name: asyncio.Semaphore(capacity(pool, config)) for name, pool in pools.items()}
        self._lanes: asyncio.PriorityQueue[int] = asyncio.PriorityQueue()
        for lane in range(config.pool):
            self._lanes.put_nowait(lane)
        self._ended: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
        for trajectory in remembered.ended:
            self._ended[trajectory.tree_id, trajectory.index].append(trajectory)

    @property
    def pool(self) -> int:
        """Lanes there are."""
        return self._config.pool

    def remembers(self, number: int) -> bool:
        """Whether every place of a group ended in an earlier part of the run."""
        return not self._remembered.remaining(self.order.slots(number))

    async def group(self, number: int, name: str) -> list[Trajectory]:
        """Grow what is left of a group; every attempt at its places, those of earlier parts of the run too.

        Raises:
            UnreachableError: the model failed every time, many times in a row.
            Spent: the run's budget is.
            StoreError: the lake can keep nothing more.
        """
        places = self.order.slots(number)
        found = [each for place in places for each in self._ended.pop((place.tree_id, place.index), ())]
        left = self._remembered.remaining(places)
        tasks = [asyncio.create_task(self._place(place, name)) for place in left]
        try:
            for grown in await asyncio.gather(*tasks):
                found += grown
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found

    def _agent_for(self, _env: Any, role: str = "") -> Agent:
        return self._agent

    async def _place(self, place: Slot, name: str) -> list[Trajectory]:
        async with self._rooms[place.env]:
            lane = await self._lanes.get()
            try:
                with self._timeline.span("rollout", lane=lane, group=name):
                    scheduler = Scheduler(
                        self._config,
                        FairQueue([place], {place.env: 1}),
                        self.lake,
                        self.ledger,
                        self._remembered,
                        lambda env: self._pools[env].lease(),
                        self._agent_for,
                    )
                    await scheduler.run()
            finally:
                self._lanes.put_nowait(lane)
        if self.ledger.hopeless:
            raise UnreachableError(
                f"run {self._config.run}: the model failed every time ({self.ledger.last_model_failure}); "
                "mend it and go on with --resume"
            )
        overdrawn = self.ledger.overdrawn()
        if not scheduler.trajectories and overdrawn is not None:
            raise Spent(overdrawn.message)
        return scheduler.trajectories


@asynccontextmanager
async def open_growth(
    config: RolloutConfig, model: Model, timeline: Timeline, *, resume: bool = False
) -> AsyncIterator[Growth]:
    """Open the lake, start the hosts, choose the tasks.

    Args:
        config: of the rollout, its run named.
        model: what the agents ask.
        timeline: told of every trajectory.
        resume: the run may be in the lake already.

    Raises:
        UsageError: unknown environment or task; the run is in the lake (without `resume`), or grew differently.
        MissingError: an environment must be installed first.
        StoreError: the lake cannot be opened.
    """
    registry = Registry.load()
    entries = {name: registry.entry(name) for name in config.env}
    async with AsyncExitStack() as stack:
        lake = await stack.enter_async_context(Lake.open(config.lake))
        run, remembered = await asyncio.to_thread(_take_up, lake, config, resume)
        pools = {name: host_pool(name, entry, config) for name, entry in entries.items()}
        for pool in pools.values():
            await stack.enter_async_context(pool)
        tasks = await choose_tasks(config.tasks, pools)
        order = Order(config.run, tasks, config.group, config.seed)
        growth = Growth(config, lake, model, pools, order, remembered, run, timeline)
        await lake.append([run, *(task.owned_by(run.id) for _, task in tasks)])
        try:
            yield growth
        finally:
            if lake.failure is None:
                await lake.append([msgspec.structs.replace(growth.run, finished=time.time())])


def _take_up(lake: Lake, config: RolloutConfig, resume: bool) -> tuple[Run, Remembered]:
    known = lake.run(config.run)
    growth = config.growth_digest()
    if known is None:
        return new_run(config), Remembered()
    if not resume:
        raise UsageError(
            f"run {config.run} is already in lake {config.lake}: choose another run, or continue it with --resume"
        )
    if known.lineage.config != growth:
        raise UsageError(
            f"run {config.run} was started with another rollout (environment, tasks, agent, group, seed or sampling "
            f"differ): resume it with the same, or choose another run"
        )
    remembered = Remembered(lake.trajectories(run_id=config.run), lake.nodes(run_id=config.run), TRIED_AGAIN)
    return msgspec.structs.replace(known, status="running", finished=0.0), remembered
