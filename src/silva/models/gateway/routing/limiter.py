"""How many requests one backend may have in flight: found out by asking for more until it is too much (AIMD).

    success, and the limit was really used ──▶ limit + 1 (until the first overload; then + 1 per round trip)
    overload (429, 503, a timeout, or far slower than it can be) ──▶ limit * DECREASE, once per round trip
    429 with Retry-After ──▶ besides, nothing new until then

Specification:
- `least <= limit <= most` always holds.
- The limit grows only by a request that began while at least `USED` of the limit was in flight: an idle backend
  teaches nothing about its bounds.
- A request that began before the last decrease cannot decrease again: it left under the old limit.
- Latency is judged as *pace*, seconds per unit of work (output tokens), because replies differ a thousandfold in
  length; a success that does not say its units is not judged. A window of requests whose pace is above `slow` times
  the floor is an overload, unless they took less than `QUICK` each. The floor is the best window seen; it rises
  slowly, so that new work finds a new one.
"""

from __future__ import annotations

import math

DECREASE = 0.7
USED = 0.9
WINDOW = 16
"""Requests whose common pace is compared with the floor."""

QUICK = 0.5
"""Seconds within which a reply is no sign of overload, whatever the best pace was: on a busy machine the gateway's own
loop is late by tenths of that."""

FORGET = 1.02
"""By how much the floor rises with every window."""

LONGEST_HOLD = 60.0
"""Most seconds that one Retry-After can close a backend."""


class Limiter:
    """One backend's limit, which is how many it may have in flight; every method is told the time.

    Args:
        start: the first limit.
        least: never below, at least 1.
        most: never above.
        slow: a pace of so many times the floor is an overload.
    """

    __slots__ = (
        "_exact",
        "_floor",
        "_growing",
        "_last_decrease",
        "_seconds",
        "_seen",
        "_units",
        "held_until",
        "least",
        "limit",
        "most",
        "slow",
    )

    def __init__(self, start: int, least: int, most: int, slow: float = 10.0) -> None:
        self.least = least
        self.most = most
        self.slow = slow
        self.held_until = -math.inf
        self.limit = start
        self._exact = float(start)
        self._growing = True
        self._last_decrease = -math.inf
        self._floor = math.inf
        self._seconds = 0.0
        self._units = 0
        self._seen = 0

    def used(self, outstanding: int) -> bool:
        """Whether a request that makes it `outstanding` in flight really uses the limit."""
        return outstanding >= USED * self.limit

    def succeeded(self, began: float, used: bool, now: float, seconds: float = 0.0, units: int = 0) -> None:
        """A request was answered.

        Args:
            began: when it began.
            used: what `used` said then.
            now: the time.
            seconds: how long it took.
            units: how much work that was (output tokens); 0 where it is not known.
        """
        if units > 0 and self._too_slow(seconds, units):
            self.overloaded(began, now)
        elif used:
            self._set(self._exact + (1.0 if self._growing else 1.0 / self._exact))

    def overloaded(self, began: float, now: float, retry_after: float | None = None) -> None:
        """A request that began then was too much; the backend may ask not to be asked for `retry_after` seconds."""
        if retry_after is not None:
            self.held_until = max(self.held_until, now + min(retry_after, LONGEST_HOLD))
        if began < self._last_decrease:
            return
        self._last_decrease = now
        self._growing = False
        self._set(self._exact * DECREASE)

    def _set(self, exact: float) -> None:
        self._exact = min(max(exact, float(self.least)), float(self.most))
        self.limit = int(self._exact)

    def _too_slow(self, seconds: float, units: int) -> bool:
        self._seconds += seconds
        self._units += units
        self._seen += 1
        if self._seen < WINDOW:
            return False
        pace = self._seconds / self._units
        slow = pace > self.slow * self._floor and self._seconds > QUICK * self._seen
        self._floor = min(pace, self._floor * FORGET)
        self._seconds, self._units, self._seen = 0.0, 0, 0
        return slow
