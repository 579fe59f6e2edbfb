"""The router of one route: gives every request a place on a backend, now or in its fair turn.

    lease ─ Fleet.choose ─▶ backend                                        at once: no task, no lock, no await
       └ none free ─▶ Queue (fair, bounded) ─ a place ends, a backend comes, a pause ends ─▶ backend
                          └ too long, no backend, deadline ─▶ Refused

    swap: pause ─ drain ─ action ─ resume (Rollover)

The rules are pure and elsewhere (choice, fairness, admission, breaker, limiter, rollover, retries). Everything runs in
one event loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Literal

from silva.errors import UnreachableError
from silva.models.gateway.config import Limits, Route
from silva.models.gateway.routing.admission import Admission, DrainRate
from silva.models.gateway.routing.attempts import Attempts
from silva.models.gateway.routing.backend import BackendState
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.lease import Lease
from silva.models.gateway.routing.queue import Queue
from silva.models.gateway.routing.retries import RetryBudget
from silva.models.gateway.routing.rollover import Rollover
from silva.models.gateway.routing.snapshot import RouteSnapshot, backend_snapshot


class Router:
    """See the module. `fleet` is where providers and health checks tell of backends.

    Args:
        name: the route's, for messages.
        route: how it is configured; its backends come by `fleet`.
        limits: how many may wait, how long.
        clock: seconds on a clock that never goes back.
    """

    def __init__(
        self, name: str, route: Route, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        limits = limits or Limits()
        self.name = name
        self.now = clock
        self.fleet = Fleet(route.concurrency, route.health, clock)
        self.retries = RetryBudget(route.retry_ratio, route.attempts)
        self._wait_seconds = limits.wait_seconds
        self._rollover = Rollover(route.version)
        self._changed = -math.inf
        self._rate = DrainRate()
        self._in_flight = 0
        self._granted = 0
        self._closed = False
        admission = Admission(
            wait_seconds=limits.wait_seconds, absent_seconds=route.health.every + route.health.open_seconds
        )
        self._queue = Queue(
            name, self.fleet, admission, limits.waiting, self._rate, self._give, lambda: self._rollover.admits
        )

    # Requests

    def lease(
        self,
        *,
        session: str = "",
        run: str = "",
        share: float = 1.0,
        deadline: float = math.inf,
        exclude: Collection[str] = (),
    ) -> Lease:
        """A place on a backend, to be entered with `async with`.

        Args:
            session: requests with the same key go to the same backend if it can be (prefix cache).
            run: the run it is for, and
            share: that run's weight when runs compete.
            deadline: when, on the router's clock, the request is of no use any more.
            exclude: names of backends already tried.

        Raises (on entering):
            Refused: no backend, and why.
        """
        return Lease(self, session, run, share, deadline, exclude)

    def attempts(self, deadline: float = math.inf) -> Attempts:
        """Counts one request's attempts; see there."""
        return Attempts(self.fleet, self.retries, deadline, self._wait_seconds)

    def grant_now(self, lease: Lease) -> bool:
        """Give it a place if one is free and nobody waits for it."""
        if len(self._queue) or not self._rollover.admits or self._closed:
            return False
        now = self.now()
        if now >= lease.deadline:
            return False
        state = self.fleet.choose(now, lease.session, lease.exclude)
        if state is None:
            return False
        self._give(lease, state, now)
        return True

    async def wait(self, lease: Lease) -> None:
        """Wait in line for a place.

        Raises:
            Refused: there is none, and why.
        """
        self.fleet.demand(self.waiting + 1, self._in_flight, self.now())
        await self._queue.wait(lease)

    def release(self, lease: Lease) -> None:
        """A place is free: it goes to whoever is next."""
        self._in_flight -= 1
        self._rate.ended(self.now())
        if self.fleet.quiet:
            self.fleet.quiet.look()
        if len(self._queue):
            self._queue.look()

    def learn(self, lease: Lease, version: str) -> None:
        """A reply told its version; one that began before the last change says nothing about now."""
        if lease.state is not None and lease.began >= self._changed:
            lease.state.version = version

    def _give(self, lease: Lease, state: BackendState, now: float) -> None:
        self._in_flight += 1
        self._granted += 1
        lease.given(state, now, state.version or self._rollover.version)

    # Versions

    @property
    def version(self) -> str:
        """The policy version requests get now, where backends tell none."""
        return self._rollover.version

    def pause(self) -> None:
        """From now on requests wait; what is in flight goes on."""
        self._rollover.paused = True

    def resume(self) -> None:
        """Requests are served again."""
        self._rollover.paused = False
        self._queue.look()

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until nothing is in flight; False where that took too long. Without `pause` that may be never."""
        return await self._quiet(seconds)

    async def swap(
        self,
        action: Callable[[], Awaitable[object]],
        version: str,
        *,
        drain_seconds: float | None = None,
        when_late: Literal["wait", "abort"] = "wait",
    ) -> None:
        """Pause, drain, run `action`, resume with the new version; requests wait meanwhile, none fails.

        Where anything goes wrong the old version is served again and the error is raised: `action` must leave the
        backends as they were, or as they are when it succeeded. It must not lease from this router: nothing is given
        while it runs.

        Args:
            action: makes the backends serve the new version.
            version: its name.
            drain_seconds: how long what is in flight may take to end; None: as long as it takes.
            when_late: what happens then: `wait` on, or `abort` the change.

        Raises:
            UsageError: another change is under way.
            UnreachableError: the drain was aborted.
        """
        change = self._rollover
        change.begin(version, self.now(), drain_seconds, when_late)
        try:
            while (step := change.step(self._in_flight, self.now())) != "swap":
                if step == "abort":
                    raise UnreachableError(f"model {self.name} keeps version {self.version!r}: {change.error}")
                late = change.late_at
                await self._quiet(None if late is None else max(late - self.now(), 0.0))
            await action()
        except BaseException as fault:
            change.failed(change.error or str(fault) or type(fault).__name__)
            raise
        else:
            change.swapped()
            self._versions_changed()
        finally:
            self._queue.look()

    def switch(self, version: str) -> None:
        """Make another version the default at once, where backends hold several.

        Raises:
            UsageError: another change is under way.
        """
        self._rollover.switch(version)
        self._versions_changed()

    async def _quiet(self, seconds: float | None) -> bool:
        return await self.fleet.quiet.wait(lambda: self._in_flight == 0, seconds)

    def _versions_changed(self) -> None:
        self._changed = self.now()
        self.fleet.forget_versions()

    # The whole

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    @property
    def in_flight(self) -> int:
        """How many requests have a place."""
        return self._in_flight

    def snapshot(self) -> RouteSnapshot:
        """The route as it is."""
        return RouteSnapshot(
            name=self.name,
            stage=self._rollover.stage,
            paused=self._rollover.paused,
            version=self.version,
            error=self._rollover.error,
            waiting=self.waiting,
            in_flight=self._in_flight,
            granted=self._granted,
            rate=self._rate.per_second(self.now()),
            expected=self.fleet.expected,
            retried=self.retries.made,
            refused=dict(self._queue.refused),
            backends=tuple(backend_snapshot(state) for state in self.fleet.states()),
        )

    def close(self) -> None:
        """Refuse whoever waits, and whoever comes."""
        self._closed = True
        self._queue.close()
