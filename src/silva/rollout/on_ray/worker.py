"""A worker: one process on a node that plays episodes with the engine's own code.

    start ─▶ hosts of every environment ─▶ (tasks) ─▶ begin ─▶ model ─▶ play … ─▶ leave
                                                                 └ letters, acknowledge: the journal's two directions

Ray makes an actor of this class; the class itself knows nothing of Ray.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Mapping
from contextlib import AsyncExitStack

import silva
from silva.collecting import collect_seldom
from silva.envs import HostPool, Registry
from silva.errors import SilvaError
from silva.rollout.agent import AgentFor
from silva.rollout.config import RolloutConfig
from silva.rollout.episode import Episode
from silva.rollout.on_ray.letters import Assignment, Fault, Letter, Ready, Refusal
from silva.rollout.on_ray.outbox import EpisodeStore, Outbox
from silva.rollout.opening import capacity, host_pool, open_policy
from silva.rollout.path import Path
from silva.rollout.roles import known_roles
from silva.rollout.slots import Slot
from silva.tree import Failure, Task

POLL_SECONDS = 5.0
"""An empty outbox says so after this long: silence for longer means that the worker hangs."""


class Worker:
    """See the module."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._pools: dict[str, HostPool] = {}
        self._episodes: set[asyncio.Task[None]] = set()
        self._spent: Failure | None = None
        self._where = ""

    async def start(self, config: str, share: int, variables: Mapping[str, str], address: str) -> Ready | Refusal:
        """Start the hosts.

        Args:
            config: the run's `RolloutConfig` as JSON.
            share: this worker's part of the pool.
            variables: what the driver's environment lends: keys of models, and what `hosts.pass_variables` names.
            address: of the node as Ray knows it, for errors.
        """
        self._where = f"node {address}: "
        self._outbox = Outbox()
        os.environ.update(variables)
        collect_seldom()
        try:
            self._config = RolloutConfig.model_validate_json(config).model_copy(update={"pool": share})
            registry = Registry.load()
            for name in self._config.env:
                pool = host_pool(name, registry.entry(name), self._config)
                self._pools[name] = await self._stack.enter_async_context(pool)
            known_roles(self._config, {name: pool.capabilities.roles for name, pool in self._pools.items()})
        except SilvaError as error:
            return Refusal.of(error, self._where)
        room = {name: capacity(pool, self._config) for name, pool in self._pools.items()}
        return Ready(version=silva.__version__, address=address, capacity=room)

    async def tasks(self, env: str, split: str, limit: int | None, ids: list[str] | None) -> list[Task] | Refusal:
        """As `HostPool.tasks`."""
        try:
            return await self._pools[env].tasks(split=split, limit=limit, ids=ids)
        except SilvaError as error:
            return Refusal.of(error)

    async def begin(self) -> Refusal | None:
        """Open the model: nothing is played before."""
        try:
            self._agent_for: AgentFor = await open_policy(self._config, self._stack)
        except SilvaError as error:
            return Refusal.of(error, self._where)
        return None

    async def play(self, assignment: Assignment) -> None:
        """Begin an episode; what comes of it is in the letters."""
        self._spent = assignment.spent
        task = asyncio.create_task(self._episode(assignment))
        self._episodes.add(task)
        task.add_done_callback(self._episodes.discard)

    async def letters(self) -> list[Letter]:
        """What there is to keep, as soon as there is any; an empty list after `POLL_SECONDS`."""
        return await self._outbox.collect(POLL_SECONDS)

    async def acknowledge(self, numbers: list[int], failure: str, spent: Failure | None) -> None:
        """The driver has kept these (or says why not), and tells whether the run's budget is spent."""
        self._spent = spent
        self._outbox.acknowledge(numbers, failure)

    async def leave(self) -> None:
        """End the episodes, the hosts and the model."""
        for task in list(self._episodes):
            task.cancel()
        await asyncio.gather(*self._episodes, return_exceptions=True)
        await self._stack.aclose()

    async def _episode(self, assignment: Assignment) -> None:
        slot, flight = assignment.slot, assignment.flight
        assert isinstance(slot, Slot)
        store = EpisodeStore(self._outbox, flight)
        known = {node.id for node in assignment.walk}
        path = Path(store, self._config.run, slot.tree_id, slot.name, known, assignment.walk)
        episode = Episode(self._config, slot, path, lambda: self._spent)
        try:
            pool = self._pools[slot.env]
            trajectory = await episode.run(pool.lease(), self._agent_for, store, pool.lease)
            await path.finish(trajectory)
        except SilvaError as error:
            self._outbox.fault(Fault(flight=flight, refusal=Refusal.of(error, self._where)))
        except Exception:  # noqa: BLE001 - the process boundary: the driver raises it
            self._outbox.fault(Fault(flight=flight, refusal=None, traceback=traceback.format_exc()))
