"""The backends of one route as they come and go: what providers and health checks tell, and requests choose from.

provider ── add, remove, expect ─▶ Fleet ◀─ mark ── health check
                                    │ choose
                                    ▼
                                  a lease
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection

from silva.models.gateway.config import Concurrency, Health
from silva.models.gateway.routing.backend import Backend, BackendState
from silva.models.gateway.routing.breaker import Breaker
from silva.models.gateway.routing.choice import Nothing, choose, why_nothing
from silva.models.gateway.routing.limiter import Limiter

Demand = Callable[[int, int, float], None]
"""Told how many requests wait, how many are in flight, and the time, whenever one finds no place; must not block."""


class Fleet:
    """See the module. One event loop.

    Args:
        concurrency: the bounds of every backend's limiter.
        health: the bounds of every backend's breaker.
        clock: seconds on a clock that never goes back.
    """

    def __init__(
        self,
        concurrency: Concurrency | None = None,
        health: Health | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = clock
        self.concurrency = concurrency or Concurrency()
        self.health = health or Health()
        self._quiet: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._states: dict[str, BackendState] = {}
        self._expected: dict[str, tuple[int, str, bool]] = {}
        """How many backends each provider brings up, why it brings none, and whether it would if a request came."""
        self._demands: list[Demand] = []
        self._changed: Callable[[], None] = lambda: None
        self._waiting: Callable[[], int] = lambda: 0
        self._absent_since: float | None = None

    # Providers and health checks tell

    def add(self, backend: Backend, *, healthy: bool = True) -> None:
        """A backend came; one of the same name is replaced."""
        limiter = Limiter(self.concurrency.start, self.concurrency.least, self.concurrency.most)
        breaker = Breaker(self.health.breaker, self.health.open_seconds)
        self._states[backend.name] = BackendState(backend, limiter, breaker, healthy)
        self._look()

    def remove(self, name: str) -> None:
        """A backend went; what it has in flight may still end."""
        if (state := self._states.pop(name, None)) is not None:
            state.draining = True
            self._look()

    def mark(self, name: str, healthy: bool, *, version: str = "", trouble: str = "") -> None:
        """What a health check found. `version` is the one it serves, "" where it tells none."""
        state = self._states.get(name)
        if state is None:
            return
        if trouble or healthy != state.healthy:
            state.trouble = trouble
        if version:
            state.version = version
        if healthy != state.healthy:
            state.healthy = healthy
            self._look()

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return self._waiting()

    def expect(self, provider: str, count: int, trouble: str = "", *, on_demand: bool = False) -> None:
        """How many backends a provider is bringing up: while there are any, requests wait for them. `trouble` is why
        it brings none, for the refusal. `on_demand`: it would bring one up if a request came."""
        self._expected[provider] = (count, trouble, on_demand)
        self._look()

    def watch(self, demand: Demand) -> None:
        """Have `demand` called whenever a request finds no place."""
        self._demands.append(demand)

    def unwatch(self, demand: Demand) -> None:
        """Have it called no more."""
        if demand in self._demands:
            self._demands.remove(demand)

    async def drain(self, name: str, seconds: float | None = None) -> bool:
        """Send a backend nothing more and wait until nothing is in flight there; False where that took too long."""
        state = self._states.get(name)
        if state is None:
            return True
        state.draining = True
        self._look()
        return await self.quiet(lambda: state.outstanding == 0, seconds)

    async def quiet(self, is_quiet: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until `is_quiet`, which is asked whenever a request ends; False where that took more than `seconds`."""
        entry = (is_quiet, asyncio.get_running_loop().create_future())
        self._quiet.append(entry)
        self.ended()
        try:
            await asyncio.wait([entry[1]], timeout=seconds)
        finally:
            self._quiet.remove(entry)
        return entry[1].done() or is_quiet()

    def ended(self) -> None:
        """A request ended: wake those for whom it is quiet now."""
        for is_quiet, future in self._quiet:
            if not future.done() and is_quiet():
                future.set_result(None)

    # The router asks

    def attach(self, changed: Callable[[], None], waiting: Callable[[], int]) -> None:
        """Belong to a queue: `changed` is called whenever there may be room where there was none, or no backend where
        there was one; `waiting` says how many wait."""
        self._changed, self._waiting = changed, waiting

    def demand(self, waiting: int, in_flight: int, now: float) -> None:
        """A request found no place: tell those who can do something about it."""
        for tell in self._demands:
            tell(waiting, in_flight, now)

    def choose(self, now: float, session: str = "", exclude: Collection[str] = ()) -> BackendState | None:
        """A backend with room, see `choice`."""
        return choose(self._states.values(), now, session, exclude)

    def why_nothing(self, now: float, exclude: Collection[str] = ()) -> Nothing:
        """Why there is none; remembers since when no backend has been there."""
        why = why_nothing(self._states.values(), now, exclude)
        if why != "absent":
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = now
        return why

    @property
    def absent_since(self) -> float | None:
        """Since when no backend has been there and none is expected, as far as has been noticed."""
        return None if self.expected else self._absent_since

    @property
    def expected(self) -> int:
        """How many backends are being brought up."""
        return sum(count for count, _, _ in self._expected.values())

    @property
    def ready(self) -> bool:
        """Whether a request that came now would find a backend, or have one brought up."""
        on_its_way = any(count or on_demand for count, _, on_demand in self._expected.values())
        return on_its_way or any(state.healthy and not state.draining for state in self._states.values())

    def returns(self, now: float) -> float:
        """When time alone may give one back (a breaker's probe, the end of a Retry-After); infinity where it cannot."""
        times = (state.returns(now) for state in self._states.values())
        return min((at for at in times if at is not None and at > now), default=math.inf)

    def trouble(self) -> str:
        """Why nothing is there, in the words of whoever knows."""
        told = [text for _, text, _ in self._expected.values() if text]
        told += [f"{state.backend.name}: {state.trouble}" for state in self._states.values() if state.trouble]
        return "; ".join(told[:3])

    def get(self, name: str) -> BackendState | None:
        """One backend as it is."""
        return self._states.get(name)

    def states(self) -> tuple[BackendState, ...]:
        """All backends as they are."""
        return tuple(self._states.values())

    def forget_versions(self) -> None:
        """What backends told about their versions is no longer so."""
        for state in self._states.values():
            state.version = ""

    def _look(self) -> None:
        self.why_nothing(self.now())
        self._changed()
