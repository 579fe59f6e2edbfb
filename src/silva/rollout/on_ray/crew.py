"""All workers of a run: who plays what, and what happens when one is lost.

    nodes ─▶ hire ─▶ members ─▶ (tasks) ─▶ begin ─▶ play(slot) ─▶ the member with most room
                        ▲                                            │ Gone
                        └────────── another in its place ◀───────────┴──▶ the episode begins again elsewhere

The pool is shared out evenly. Where a worker cannot be replaced the others go on; where none is left the run ends, and
the lake has all that was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import silva
from silva.errors import MissingError, SilvaError, UnreachableError, UsageError
from silva.hosts import is_loopback
from silva.lake import Lake
from silva.models.connect import KEY_VARIABLE
from silva.models.endpoint import Endpoint
from silva.rollout.config import RolloutConfig
from silva.rollout.ledger import Ledger
from silva.rollout.on_ray.cluster import Cluster, Gone, connected
from silva.rollout.on_ray.flight import Flight
from silva.rollout.on_ray.letters import Refusal
from silva.rollout.on_ray.member import Member
from silva.rollout.on_ray.placement import RayNode, placed, places
from silva.rollout.on_ray.worker import Worker
from silva.rollout.slots import Remembered, Slot
from silva.tree import Task, Trajectory

log = logging.getLogger("silva.rollout.ray")

MOST_DEATHS = 8
"""Workers that may be lost in a row, none of which said a word, before the run gives up."""
SILENCE = 60.0
"""Seconds a worker may say nothing at all."""


class CrewTasks:
    """The tasks of one environment, listed by a worker (`silva.rollout.tasks.ListsTasks`)."""

    def __init__(self, crew: Crew, env: str) -> None:
        self._crew = crew
        self._env = env

    async def tasks(self, split: str = "test", limit: int | None = None, ids: list[str] | None = None) -> list[Task]:
        """As `HostPool.tasks`."""
        try:
            return await self._crew.members[0].tasks(self._env, split, limit, ids)
        except Gone as gone:
            raise UnreachableError(f"a Ray worker was lost while it listed tasks: {gone}") from gone


class Crew:
    """See the module. Made by `open_crew`."""

    def __init__(self, cluster: Cluster, config: RolloutConfig) -> None:
        self._cluster, self._config = cluster, config
        self.members: list[Member] = []
        self.pools = {name: CrewTasks(self, name) for name in config.env}
        self._nodes: dict[str, RayNode] = {}
        self._homes: list[str] = []
        self._attending: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._broken: Exception | None = None
        self._deaths = 0

    @property
    def share(self) -> int:
        """Episodes in flight at one worker."""
        return math.ceil(self._config.pool / len(self._homes))

    def capacity(self, env: str) -> int:
        """How many episodes of one environment may be in flight, on all workers together."""
        share = math.ceil(self._config.pool / len(self._config.env))
        return min(share, sum(member.ready.capacity[env] for member in self.members))

    def __str__(self) -> str:
        cpus = self._config.ray.cpus
        used = len(set(self._homes))
        return (
            f"ray at {self._cluster.address}: {len(self._homes)} workers of {cpus:g} CPUs on {used} of "
            f"{len(self._nodes)} nodes, {self.share} episodes each"
        )

    async def hire(self, most: int | None = None) -> None:
        """Start the workers, or the first `most` of them.

        Raises:
            UsageError: there is no room for them; a node cannot reach the model; what a worker said.
            MissingError: Silva, or an environment, is not installed on a node.
            UnreachableError: none could be started.
        """
        config = self._config
        nodes = self._look()
        self._homes = placed(nodes, config.ray.cpus, config.ray.workers, config.pool)
        self._refuse_loopback()
        started = await asyncio.gather(*(self._start(node) for node in self._homes[:most]), return_exceptions=True)
        self.members = [each for each in started if isinstance(each, Member)]
        lost = [each for each in started if isinstance(each, Gone)]
        for fault in started:
            if isinstance(fault, BaseException) and not isinstance(fault, Gone):
                raise fault
        if not self.members:
            raise UnreachableError(
                f"no worker could be started on the Ray cluster at {config.ray.address!r} ({lost[0]}): are its CPUs "
                "busy (ray status)? Wait for them, or raise ray.start_timeout"
            )
        if lost:
            log.warning("%d of %d Ray workers did not start (%s)", len(lost), len(started), lost[0])

    async def begin(self, lake: Lake, remembered: Remembered, ledger: Ledger) -> None:
        """Have all open their model, and be ready to keep what they say.

        Raises:
            SilvaError: the model cannot be had; the line names the node.
            UnreachableError: a worker was lost meanwhile.
        """
        self._lake, self._remembered, self._ledger = lake, remembered, ledger
        try:
            await asyncio.gather(*(member.begin(self._config.ray.start_timeout) for member in self.members))
        except Gone as gone:
            raise UnreachableError(f"a Ray worker was lost before it began: {gone}") from gone
        for member in self.members:
            self._attend(member)

    async def play(self, slot: Slot) -> Trajectory:
        """Have a slot's attempt played to its end, by as many workers as it takes.

        Raises:
            UnreachableError: no worker is left.
            SilvaError: a worker met what ends a run.
        """
        flight = Flight(slot, self._remembered.walk(slot), self._remembered.written[slot.tree_id])
        while True:
            member = await self._free(slot.env)
            try:
                return await member.play(flight, self._ledger.overdrawn())
            except Gone as gone:
                flight.losses += 1
                if flight.losses > self._config.retries:
                    trajectory = flight.given_up(self._config, str(gone))
                    await self._lake.append([trajectory])
                    return trajectory
                flight.again()
            finally:
                member.running[slot.env] -= 1
                self._wake()

    async def close(self) -> None:
        """End every worker."""
        for task in self._attending:
            task.cancel()
        await asyncio.gather(*self._attending, return_exceptions=True)
        await asyncio.gather(*(member.leave() for member in self.members))

    def _look(self) -> list[RayNode]:
        nodes = self._cluster.nodes()
        self._nodes = {node.id: node for node in nodes}
        return nodes

    def _refuse_loopback(self) -> None:
        config = self._config
        url = urlsplit(config.model)
        if config.policy != "model" or url.scheme not in ("http", "https") or not is_loopback(url.hostname or ""):
            return
        away = {self._nodes[home].address for home in self._homes} - {self._cluster.own_address()}
        if away:
            raise UsageError(
                f"model {config.model}: node {min(away)} has another loopback; give an address that every node reaches"
            )

    async def _start(self, node: str) -> Member:
        config, address = self._config, self._nodes[node].address
        actor = self._cluster.actor(Worker, node, config.ray.cpus)
        try:
            told = config.model_dump_json()
            reply = await self._cluster.ask(
                actor.start.remote(told, self.share, lent(config), address), config.ray.start_timeout
            )
            if isinstance(reply, Refusal):
                raise reply.error()
            if reply.version != silva.__version__:
                raise MissingError(
                    f"node {address} has Silva {reply.version}, this is {silva.__version__}: install the same on both"
                )
        except BaseException:
            self._cluster.kill(actor)
            raise
        silence = SILENCE + (config.deadlines.environment if config.hosts.inline else 0.0)
        return Member(self._cluster, actor, node, reply, silence)

    def _attend(self, member: Member) -> None:
        task = asyncio.create_task(self._listen(member))
        self._attending.add(task)
        task.add_done_callback(self._attending.discard)

    async def _listen(self, member: Member) -> None:
        try:
            await member.listen(self._lake, self._ledger.overdrawn)
        except Gone as gone:
            again = sum(member.running.values())
            member.lose(gone)
            self.members.remove(member)
            self._deaths = 1 if member.said else self._deaths + 1
            log.warning("a Ray worker was lost (%s): %d episodes begin again elsewhere", gone, again)
            try:
                await self._replace(gone)
            except Exception as fault:  # noqa: BLE001 - a task of its own: the episodes that wait are told
                self._break(fault)
        except Exception as fault:  # noqa: BLE001 - as above
            self._break(fault)

    async def _replace(self, gone: Gone) -> None:
        """Start another worker; where that cannot be the others go on.

        Raises:
            UnreachableError: there are no others, or too many were lost.
            SilvaError: what the new worker said.
        """
        while self._deaths < MOST_DEATHS:
            home = self._roomiest()
            if home is None:
                if self.members:
                    log.warning("no node has room for another Ray worker: %d go on", len(self.members))
                    return
                break
            try:
                member = await self._start(home)
                await member.begin(self._config.ray.start_timeout)
            except Gone as fault:
                gone = fault
                self._deaths += 1
                await asyncio.sleep(min(0.05 * 2**self._deaths, 5.0))
                continue
            except SilvaError as fault:
                if not self.members:
                    raise
                log.warning("another Ray worker cannot be had: %d go on (%s)", len(self.members), fault)
                return
            self.members.append(member)
            self._attend(member)
            self._wake()
            return
        raise UnreachableError(
            f"no Ray worker is left, and none can be started (the last: {gone}); what was acknowledged is kept: "
            "mend the cluster, or leave out --on ray, and go on with --resume"
        )

    def _roomiest(self) -> str | None:
        """The living node with most room that our own workers leave."""
        try:
            room = Counter(places(self._look(), self._config.ray.cpus))
        except UsageError:
            return None
        room.subtract(member.node for member in self.members if member.node in room)
        home, left = room.most_common(1)[0]
        return home if left > 0 else None

    def _break(self, error: Exception) -> None:
        self._broken = error
        for member in self.members:
            member.break_off(error)
        self._wake()

    async def _free(self, env: str) -> Member:
        while True:
            if self._broken is not None:
                raise self._broken
            free = [member for member in self.members if member.room(env) > 0]
            if free:
                member = min(free, key=lambda each: sum(each.running.values()))
                member.running[env] += 1
                return member
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _wake(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)


def lent(config: RolloutConfig) -> dict[str, str]:
    """What of this process's environment the workers get: the key of the run's model, and what `hosts` may see. Sent
    with the first call to each and not kept by Ray, as a runtime environment would be."""
    names = set(config.hosts.pass_variables)
    if config.policy == "model" and config.model.startswith(("http://", "https://")):
        names.add(KEY_VARIABLE)
    if config.policy == "model" and config.model.startswith("openai:"):
        names.add(Endpoint(url="", model="").api_key_env)
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


@asynccontextmanager
async def open_crew(config: RolloutConfig, most: int | None = None) -> AsyncIterator[Crew]:
    """Workers on the cluster for the length of the block; of all that the configuration asks for, the first `most`.

    Raises:
        MissingError: ray is not installed here, or Silva or an environment on a node.
        UnreachableError: no cluster, or no room on it for now.
        UsageError: the cluster can never hold them; an environment or option is not known.
    """
    with connected(config.ray) as cluster:
        crew = Crew(cluster, config)
        try:
            await crew.hire(most)
            yield crew
        finally:
            await crew.close()
