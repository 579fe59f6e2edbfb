"""How fast one token may speak: a bucket that fills at a rate and holds a burst.

A pure state machine. `take(now)` gives 0 where there is room, else the seconds until there is. `now` is any clock that
does not go back.
"""

from __future__ import annotations


class Pace:
    """A token bucket: `rate` requests a second in the long run, `burst` at once."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._level = float(burst)
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Take a place, or say in how many seconds there is one."""
        if self._at is not None:
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate
