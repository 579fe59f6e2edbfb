"""The attempts of one request: where it has been tried, whether and where it may be tried again.

attempts = router.attempts(deadline)
while True:
    try:
        async with router.lease(..., deadline=deadline, exclude=attempts.exclude) as lease:
            …; lease.succeeded(seconds, version); return …
    except ModelError as error:
        if not await attempts.again(error, lease.backend.name): raise
"""

from __future__ import annotations

import asyncio
import math

from silva.models.errors import ModelError
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.retries import RetryBudget


class Attempts:
    """See the module.

    Args:
        fleet: the route's backends.
        budget: the route's retries.
        deadline: when the request is of no use any more.
        wait_seconds: how long it may wait for its next attempt; who is asked to wait longer is told so.
    """

    __slots__ = ("_budget", "_fleet", "_wait_seconds", "count", "deadline", "exclude")

    def __init__(
        self, fleet: Fleet, budget: RetryBudget, deadline: float = math.inf, wait_seconds: float = math.inf
    ) -> None:
        self._fleet = fleet
        self._budget = budget
        self._wait_seconds = wait_seconds
        self.deadline = deadline
        self.count = 0
        self.exclude: frozenset[str] = frozenset()
        budget.earn()

    async def again(self, error: ModelError, backend: str) -> bool:
        """An attempt on that backend failed: wait as long as is right and give True, or False where it was the last."""
        self.count += 1
        now = self._fleet.now()
        others = [state.backend.name for state in self._fleet.states() if state.eligible(now)]
        found = self._budget.again(error, self.exclude | {backend}, self.count, others, now)
        if found is None or now + found.wait >= self.deadline or found.wait > self._wait_seconds:
            return False
        self.exclude = found.exclude
        self._budget.made += 1
        if found.wait:
            await asyncio.sleep(found.wait)
        return True
