"""A lease: one request's right to one place on one backend, and what it has to tell when it ends.

async with router.lease(session="s1", run="r1", deadline=now + 60) as lease:
    …ask lease.backend…
    lease.succeeded(version)      or lease.failed(error); saying nothing (a cancelled request) is neutral
"""

from __future__ import annotations

import math
from asyncio import Future
from collections.abc import Collection
from typing import Protocol

from silva.models.errors import ModelError
from silva.models.gateway.routing.attempts import FAULTS
from silva.models.gateway.routing.backend import Backend, BackendState


class Leasing(Protocol):
    """What a lease needs of its router: a place, at once or in its turn; to give it back; the time; and somebody to
    tell which version a reply came from."""

    def grant_now(self, lease: Lease) -> bool: ...
    async def wait(self, lease: Lease) -> None: ...
    def release(self, lease: Lease) -> None: ...
    def now(self) -> float: ...
    def learn(self, lease: Lease, version: str) -> None: ...


class Lease:
    """See the module. After entering, `backend` is where to ask and `version` the policy version to expect (or to ask
    for, where backends hold several)."""

    def __init__(
        self, router: Leasing, session: str, run: str, share: float, deadline: float, exclude: Collection[str]
    ) -> None:
        self._router = router
        self.session = session
        self.run = run
        self.share = share
        self.deadline = deadline
        self.exclude = exclude
        self.state: BackendState | None = None
        self.version = ""
        self.began = math.inf
        self.future: Future[None] | None = None
        """Done once it has its place, or is refused one; None where it does not wait."""
        self.place = 0
        self.until = deadline
        self.held = False
        self._ticket = 0
        self._used = False
        self._told = False

    @property
    def backend(self) -> Backend:
        """Where to ask; after the end, where it was asked."""
        if self.state is None:
            raise RuntimeError("a lease has a backend only inside 'async with'")
        return self.state.backend

    async def __aenter__(self) -> Lease:
        if not self._router.grant_now(self):
            await self._router.wait(self)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModelError) and not self._told:
            self.failed(error)
        self.end()

    def end(self) -> None:
        """Give the place back; without an outcome told, neutrally."""
        if self.state is None or not self.held:
            return
        if not self._told:
            self._told = True
            self.state.breaker.cancelled(self._ticket)
        self.held = False
        self.state.outstanding -= 1
        self._router.release(self)

    def given(self, state: BackendState, now: float, version: str) -> None:
        """The router gave this lease a place on that backend."""
        state.outstanding += 1
        state.served += 1
        self.state, self.held, self.began, self.version = state, True, now, version
        self._ticket = state.breaker.begin(now)
        self._used = state.limiter.used(state.outstanding)

    def succeeded(self, version: str = "") -> None:
        """The backend answered; `version` is the policy version it said it served, "" if it said none."""
        state = self._telling()
        state.breaker.succeeded(self._ticket)
        state.limiter.succeeded(self._used)
        if version:
            self._router.learn(self, version)

    def failed(self, error: ModelError) -> None:
        """The backend failed. A deadline of the client's own, or its going away, is no failure: say nothing then."""
        state = self._telling()
        now = self._router.now()
        if error.kind in ("rate_limit", "timeout") or (error.kind == "server" and error.transient):
            state.limiter.overloaded(self.began, now, error.retry_after)
        if error.kind in FAULTS:
            state.trouble = str(error)
            state.breaker.failed(self._ticket, now)
        else:  # it answered, only not what was hoped for
            state.breaker.succeeded(self._ticket)

    def _telling(self) -> BackendState:
        if self.state is None or not self.held or self._told:
            raise RuntimeError("the outcome of a lease is told once, inside 'async with'")
        self._told = True
        return self.state
