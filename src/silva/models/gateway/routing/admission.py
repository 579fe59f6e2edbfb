"""Whether a request may wait, how long at most, and when one that may not should come again.

    request ─ deadline past? ─ line full? ─▶ Patience(until, why)     otherwise Refused with Retry-After

Specification:
- A request waits until its own deadline or `wait_seconds`, whichever comes first; which one it was decides what it is
  told (`deadline`: it is of no use any more; `too_long`: come again).
- `Retry-After` is how long the line takes to drain at the rate at which requests ended lately, between `SOONEST` and
  `LATEST` seconds; where nothing ended lately, it is `UNKNOWN`.
- The rate is an average over the last `MEMORY` seconds, older ones weighing exponentially less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Why = Literal["absent", "exhausted", "held", "line_full", "too_long", "deadline", "closed"]

MEMORY = 10.0
SOONEST = 1.0
LATEST = 60.0
UNKNOWN = 5.0


class Refused(Exception):
    """A request gets no backend.

    `kind`: `absent` (no backend is up), `exhausted` (all that are up were tried), `held` (those that are up asked to be
    left alone for longer than it may wait), `line_full`, `too_long` (it waited as long as it may), `deadline` (its own
    deadline passed), `closed` (the route is going away). `retry_after`: seconds after which another try makes sense;
    None where it makes none.
    """

    def __init__(self, kind: Why, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind: Why = kind
        self.retry_after = retry_after


class DrainRate:
    """How many requests ended per second lately."""

    __slots__ = ("_at", "_count", "_since")

    def __init__(self) -> None:
        self._count = 0.0
        self._at = 0.0
        self._since = math.inf

    def ended(self, now: float) -> None:
        """One more ended."""
        if self._since == math.inf:
            self._since = self._at = now
        self._count = self._count * math.exp((self._at - now) / MEMORY) + 1.0
        self._at = now

    def per_second(self, now: float) -> float:
        """The rate; 0 before anything ended."""
        if self._since == math.inf:
            return 0.0
        # What has been remembered so far is less than MEMORY seconds' worth at the beginning.
        seen = MEMORY * (1.0 - math.exp((self._since - now) / MEMORY))
        return self._count * math.exp((self._at - now) / MEMORY) / max(seen, 1.0)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request may wait, and what it is then told."""

    until: float
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The rule of one route.

    `wait_seconds`: longest wait of one request. `absent_seconds`: how long requests wait for a first backend to come
    (back) before all are refused.
    """

    wait_seconds: float = 60.0
    absent_seconds: float = 10.0

    def patience(self, full: bool, deadline: float, waiting: int, rate: float, now: float) -> Patience:
        """How long a request may wait.

        Args:
            full: whether the line is.
            deadline: when the request is of no use any more.
            waiting: how many wait already.
            rate: how many end per second.
            now: the time.

        Raises:
            Refused: it may not wait at all.
        """
        if now >= deadline:
            raise self.refusal("deadline", waiting, rate)
        if full:
            raise self.refusal("line_full", waiting, rate)
        if deadline <= now + self.wait_seconds:
            return Patience(deadline, "deadline")
        return Patience(now + self.wait_seconds, "too_long")

    def retry_after(self, waiting: int, rate: float) -> float:
        """Seconds until the line is likely to have drained."""
        return min(max(waiting / rate, SOONEST), LATEST) if rate > 0 else UNKNOWN

    def refusal(self, why: Why, waiting: int, rate: float) -> Refused:
        """The refusal in words."""
        seconds = self.retry_after(waiting, rate)
        if why == "deadline":
            return Refused(why, "the request's deadline passed before a backend was free; give it more time")
        if why == "too_long":
            words = f"no backend was free within {self.wait_seconds:g} s, {waiting} requests wait"
        else:
            words = f"{waiting} requests wait already, which is as many as may"
        return Refused(why, f"{words}; come again in {seconds:.0f} s", seconds)
