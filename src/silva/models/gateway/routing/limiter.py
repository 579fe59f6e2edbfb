"""How many requests one backend may have in flight: found out by asking for more until it is too much (AIMD).

    success, and the limit was really used ──▶ limit + 1 (until the first overload; then + 1 per round trip)
    overload (429, 503, a timeout) ──▶ limit * DECREASE, once per round trip
    429 with Retry-After ──▶ besides, nothing new until then

Specification:
- `least <= limit <= most` always holds.
- The limit grows only by a request that began while at least `USED` of the limit was in flight: an idle backend
  teaches nothing about its bounds.
- A request that began before the last decrease cannot decrease again: it left under the old limit.
"""

from __future__ import annotations

import math

DECREASE = 0.7
USED = 0.9

LONGEST_HOLD = 60.0
"""Most seconds that one Retry-After can close a backend."""


class Limiter:
    """One backend's limit, which is how many it may have in flight; every method is told the time.

    Args:
        start: the first limit.
        least: never below, at least 1.
        most: never above.
    """

    def __init__(self, start: int, least: int, most: int) -> None:
        self.limit = start
        self.held_until = -math.inf
        self._least, self._most = least, most
        self._exact = float(start)
        self._last_decrease = -math.inf

    def used(self, outstanding: int) -> bool:
        """Whether a request that makes it `outstanding` in flight really uses the limit."""
        return outstanding >= USED * self.limit

    def succeeded(self, used: bool) -> None:
        """A request was answered; `used` is what was said when it began."""
        if used:
            self._set(self._exact + (1.0 if self._last_decrease == -math.inf else 1.0 / self._exact))

    def overloaded(self, began: float, now: float, retry_after: float | None = None) -> None:
        """A request that began then was too much; the backend may ask not to be asked for `retry_after` seconds."""
        if retry_after is not None:
            self.held_until = max(self.held_until, now + min(retry_after, LONGEST_HOLD))
        if began >= self._last_decrease:
            self._last_decrease = now
            self._set(self._exact * DECREASE)

    def _set(self, exact: float) -> None:
        self._exact = min(max(exact, float(self._least)), float(self._most))
        self.limit = int(self._exact)
