"""The attempts of one request: where it has been tried, whether and where it may be tried again.

attempts = router.attempts(deadline)
while True:
    try:
        async with router.lease(..., deadline=deadline, exclude=attempts.exclude) as lease:
            …; lease.succeeded(version); return …
    except ModelError as error:
        if not await attempts.again(error, lease.backend.name): raise

What is worth another try:

    elsewhere   the backend's own trouble: unreachable, timeout, server, garbage; auth and quota (each has its own key),
                missing (it has not the model that its peers have)
    anywhere    too much at once (rate_limit) and refusals a provider calls passing: elsewhere if possible, else here,
                after a wait
    nowhere     the request's own trouble (refused, context_length): every backend would say the same
"""

from __future__ import annotations

import asyncio
import math

from silva.models.errors import ModelError
from silva.models.gateway.routing.fleet import Fleet

FAULTS = frozenset({"unreachable", "timeout", "server", "garbage", "auth", "missing", "quota"})
"""Kinds of failure that are the backend's own trouble."""

FLOOR = 5.0
"""Retries that a quiet route has; it gets one back every second, so that it may always retry a little."""

EARNED_MOST = 100.0
"""How many retries can be saved up."""


class RetryBudget:
    """How many retries a route may still make: each first attempt earns `ratio` of one, so that when everything fails
    the load on what is left grows by that, not by `attempts`. Every method is told the time.

    Args:
        ratio: retries per request, on average.
        attempts: how often one request is tried at most.
    """

    def __init__(self, ratio: float, attempts: int) -> None:
        self.attempts = attempts
        self.made = 0
        """How many retries were made."""
        self._ratio = ratio
        self._left = FLOOR
        self._at = -math.inf

    def earn(self) -> None:
        """A first attempt begins."""
        self._left = min(max(EARNED_MOST, self._left), self._left + self._ratio)

    def spend(self, now: float) -> bool:
        """Take one retry, if there is one."""
        if self._left < FLOOR:
            self._left = min(FLOOR, self._left + now - self._at)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        self.made += 1
        return True


class Attempts:
    """See the module.

    Args:
        fleet: the route's backends.
        budget: the route's retries.
        deadline: when the request is of no use any more.
        wait_seconds: how long it may wait for its next attempt; who is asked to wait longer is told so.
    """

    def __init__(
        self, fleet: Fleet, budget: RetryBudget, deadline: float = math.inf, wait_seconds: float = math.inf
    ) -> None:
        self.exclude: frozenset[str] = frozenset()
        """Backends that are not to be asked next."""
        self._fleet = fleet
        self._budget = budget
        self._deadline = deadline
        self._wait_seconds = wait_seconds
        self._count = 0
        budget.earn()

    async def again(self, error: ModelError, backend: str) -> bool:
        """An attempt on that backend failed: wait as long as is right and give True, or False where it was the last."""
        self._count += 1
        elsewhere_alone = error.kind in FAULTS
        if self._count >= self._budget.attempts or not (elsewhere_alone or error.transient):
            return False
        now = self._fleet.now()
        tried, wait = self.exclude | {backend}, 0.0
        if all(state.backend.name in tried for state in self._fleet.states() if state.eligible(now)):
            if elsewhere_alone:
                return False
            tried, wait = frozenset(), max(error.retry_after or 0.0, 0.1 * 2.0 ** (self._count - 1))
        if now + wait >= self._deadline or wait > self._wait_seconds or not self._budget.spend(now):
            return False
        self.exclude = frozenset(tried)
        if wait:
            await asyncio.sleep(wait)
        return True
