"""Local processes as backends, started and stopped by load.

    demand, and a look every TICK ─▶ Scaling: how many? ─ too few ─▶ Worker.start ─▶ Fleet.add
                                                        └ too many ─▶ Fleet.drain ─▶ Fleet.remove ─▶ Worker.stop
    a worker that ends by itself ─▶ Fleet.remove ─▶ Restarts: when again?

While one is starting, requests wait for it; when none can be started, they are told why.
"""

from __future__ import annotations

import asyncio
import logging

import aiohttp

from silva.models.gateway.config import ProcessBackends
from silva.models.gateway.providers.scaling import Restarts, Scaling
from silva.models.gateway.providers.worker import Failed, Worker
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.fleet import Fleet

log = logging.getLogger("silva.gateway.process")

TICK = 0.5
"""Longest time between two looks at the load, in seconds."""


class ProcessProvider:
    """See the module.

    Args:
        name: what its backends are called, before their numbers.
        chosen: how to start one, and how many there should be.
    """

    def __init__(self, name: str, chosen: ProcessBackends) -> None:
        self.name = name
        self.chosen = chosen
        self._scaling = Scaling(chosen.least, chosen.most, chosen.target, chosen.idle)
        self._restarts = Restarts()
        self._fleet: Fleet | None = None
        self._http: aiohttp.ClientSession | None = None
        self._control: asyncio.Task[None] | None = None
        self._lives: dict[asyncio.Task[None], Worker] = {}
        self._wake = asyncio.Event()
        self._number = 0
        self._trouble = ""

    async def start(self, fleet: Fleet) -> None:
        """Begin; the first processes come up in the background."""
        self._fleet = fleet
        self._http = aiohttp.ClientSession()
        fleet.watch(self._demand)
        self._control = asyncio.create_task(self._run(), name=f"silva-processes {self.name}")
        self._control.add_done_callback(_tell)

    async def stop(self) -> None:
        """Stop every process; returns when they are gone."""
        if self._fleet is not None:
            self._fleet.unwatch(self._demand)
            self._fleet.expect(self.name, 0)
        if self._control is not None:
            self._control.cancel()
            await asyncio.gather(self._control, return_exceptions=True)
        lives = dict(self._lives)
        for life, worker in lives.items():
            if not worker.stopping:  # those are on their way, and must not be cut short
                life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    def backends(self) -> tuple[Backend, ...]:
        """Those that serve now."""
        return tuple(worker.backend for worker in self._lives.values() if worker.serves)

    def _demand(self, waiting: int, in_flight: int, now: float) -> None:
        """A request found no place."""
        if self._fleet is None:
            return
        if self._missing(waiting, now) > 0:
            self._expect(waiting)  # before anything is started: the very first request must find that something comes
            self._wake.set()

    def _missing(self, waiting: int, now: float) -> int:
        """How many more processes there should be; negative where there are too many."""
        assert self._fleet is not None
        load = waiting
        for worker in self._lives.values():
            state = self._fleet.get(worker.backend.name)
            load += state.outstanding if state is not None else 0
        return self._scaling.wanted(load, now) - sum(not worker.leaving for worker in self._lives.values())

    def _expect(self, waiting: int | None = None) -> None:
        """Tell the fleet how many are coming: those that start, and those that will be started."""
        assert self._fleet is not None
        now = self._fleet.now()
        coming = sum(not worker.serves for worker in self._lives.values())
        can_start = self._restarts.hopeful or self._restarts.may_start(now)
        if can_start:
            coming += max(0, self._missing(self._fleet.waiting if waiting is None else waiting, now))
        self._fleet.expect(self.name, coming, self._trouble, on_demand=can_start)

    async def _run(self) -> None:
        assert self._fleet is not None
        tick = min(TICK, self._scaling.idle / 4)
        while True:
            now = self._fleet.now()
            missing = self._missing(self._fleet.waiting, now)
            if missing > 0 and self._restarts.may_start(now):
                room = self._scaling.most - len(self._lives)  # one that is leaving still holds its memory
                if self._restarts.in_a_row:
                    room = min(room, 1)  # one is enough to see whether it works
                for _ in range(min(missing, room)):
                    self._begin()
            for _ in range(-missing):
                self._retire()
            self._expect()
            self._wake.clear()
            try:
                async with asyncio.timeout(tick):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _begin(self) -> None:
        self._number += 1
        worker = Worker(f"{self.name}-{self._number}", self.chosen)
        task = asyncio.create_task(self._live(worker), name=f"silva-process {worker.backend.name}")
        self._lives[task] = worker
        task.add_done_callback(self._died)

    def _retire(self) -> None:
        """Have the emptiest process end its requests and stop; one that still starts goes first."""
        assert self._fleet is not None

        def load(entry: tuple[asyncio.Task[None], Worker]) -> int:
            assert self._fleet is not None
            state = self._fleet.get(entry[1].backend.name)
            return -1 if state is None else state.outstanding

        staying = [entry for entry in self._lives.items() if not entry[1].leaving]
        if not staying:
            return
        task, worker = min(staying, key=load)
        worker.leaving = True
        if worker.serves:
            draining = asyncio.create_task(self._drain(worker, task))
            task.add_done_callback(lambda _: draining.cancel())
        else:
            task.cancel()

    async def _drain(self, worker: Worker, life: asyncio.Task[None]) -> None:
        assert self._fleet is not None
        await self._fleet.drain(worker.backend.name)
        life.cancel()

    async def _live(self, worker: Worker) -> None:
        """The life of one process, until it ends, crashes or is cancelled."""
        assert self._fleet is not None and self._http is not None
        came: float | None = None
        try:
            await worker.start(self._http)
            self._trouble, came = "", self._fleet.now()
            worker.serves = True
            self._fleet.add(worker.backend)
            self._expect()
            log.info("%s serves", worker.backend.name)
            raise Failed(await worker.ended())
        except Failed as fault:
            now = self._fleet.now()
            self._trouble = str(fault)
            self._restarts.crashed(0.0 if came is None else now - came, now)
            log.warning("%s", fault)
        finally:
            worker.serves, worker.stopping = False, True
            self._fleet.remove(worker.backend.name)
            await worker.stop()

    def _died(self, task: asyncio.Task[None]) -> None:
        del self._lives[task]
        self._expect()
        self._wake.set()
        _tell(task)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("%s ended by a fault of our own", task.get_name(), exc_info=fault)
