"""The router of one route: gives every request a place on a backend, now or in its fair turn.

    lease ─ Fleet.choose ─▶ backend                                        at once: no task, no lock, no await
       └ none free ─▶ Queue (fair, bounded) ─ a place ends, a backend comes, a pause ends ─▶ backend
                          └ too long, no backend, deadline ─▶ Refused

    swap: serving ─▶ draining ─ nothing in flight ─▶ swapping ─ action ─▶ serving (new version)
             └ took too long, or failed ─▶ serving (old version, `error` says why)

While a swap is under way, or the route is paused, requests wait; none is refused for it, and no reply mixes versions.
The rules are elsewhere (choice, line, breaker, limiter, attempts). Everything runs in one event loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Literal

from silva.errors import UnreachableError, UsageError
from silva.models.gateway.config import Limits, Route
from silva.models.gateway.routing.attempts import Attempts, RetryBudget
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.lease import Lease
from silva.models.gateway.routing.queue import Queue
from silva.models.gateway.routing.snapshot import RouteSnapshot, backend_snapshot


class Router(Queue):
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
        fleet = Fleet(route.concurrency, route.health, clock)
        super().__init__(name, fleet, limits or Limits(), route.health.every + route.health.open_seconds)
        self.version = route.version
        self._retries = RetryBudget(route.retry_ratio, route.attempts)
        self._stage: Literal["serving", "draining", "swapping"] = "serving"
        self._target = ""
        self._paused = False
        self._error = ""
        self._changed = -math.inf

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
        return Attempts(self.fleet, self._retries, deadline, self._wait_seconds)

    def learn(self, lease: Lease, version: str) -> None:
        """A reply told its version; one that began before the last change says nothing about now."""
        if lease.state is not None and lease.began >= self._changed:
            lease.state.version = version

    @property
    def admits(self) -> bool:
        """Whether places are given now."""
        return self._stage == "serving" and not self._paused

    def pause(self) -> None:
        """From now on requests wait; what is in flight goes on."""
        self._paused = True

    def resume(self) -> None:
        """Requests are served again."""
        self._paused = False
        self.look()

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until nothing is in flight; False where that took too long. Without `pause` that may be never."""
        return await self.fleet.quiet(lambda: self.in_flight == 0, seconds)

    async def swap(
        self, action: Callable[[], Awaitable[object]], version: str, *, drain_seconds: float | None = None
    ) -> None:
        """Pause, drain, run `action`, resume with the new version; requests wait meanwhile, none fails.

        Where anything goes wrong the old version is served again and the error is raised: `action` must leave the
        backends as they were, or as they are when it succeeded. It must not lease from this router: nothing is given
        while it runs.

        Args:
            action: makes the backends serve the new version.
            version: its name.
            drain_seconds: how long what is in flight may take to end; after that the swap is given up. None: as long as
                it takes.

        Raises:
            UsageError: another change is under way.
            UnreachableError: what is in flight took too long.
        """
        self._must_serve()
        self._stage, self._target, self._error = "draining", version, ""
        try:
            if not await self.drain(drain_seconds):
                late = f"{self.in_flight} requests were still in flight after {drain_seconds:g} s"
                raise UnreachableError(f"model {self.name} keeps version {self.version!r}: {late}")
            self._stage = "swapping"
            await action()
            self._serves(version)
        except BaseException as fault:
            self._error = str(fault) or type(fault).__name__
            raise
        finally:
            self._stage = "serving"
            self.look()

    def switch(self, version: str) -> None:
        """Make another version the default at once, where backends hold several: requests keep the version they were
        given, later ones get the new one.

        Raises:
            UsageError: another change is under way.
        """
        self._must_serve()
        self._error = ""
        self._serves(version)

    def _must_serve(self) -> None:
        if self._stage != "serving":
            raise UsageError(f"the route is {self._stage} for version {self._target!r} already: wait for that to end")

    def _serves(self, version: str) -> None:
        self.version = version
        self._changed = self.now()
        self.fleet.forget_versions()

    def snapshot(self) -> RouteSnapshot:
        """The route as it is."""
        return RouteSnapshot(
            name=self.name,
            stage=self._stage,
            paused=self._paused,
            version=self.version,
            error=self._error,
            waiting=self.waiting,
            in_flight=self.in_flight,
            granted=self.granted,
            expected=self.fleet.expected,
            retried=self._retries.made,
            refused=dict(self.refused),
            backends=tuple(backend_snapshot(state) for state in self.fleet.states()),
        )
