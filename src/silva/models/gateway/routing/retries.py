"""Which failures are tried again, where, and how many of them in all (a retry budget).

    failed ─ worth it? ─ attempts left? ─ budget left? ─▶ Again(exclude, wait)     otherwise None: tell the client

What is worth it:

    elsewhere   the backend's own trouble: unreachable, timeout, server, garbage; auth and quota (each has its own key),
                missing (it has not the model that its peers have)
    anywhere    too much at once (rate_limit) and refusals a provider calls passing: elsewhere if possible, else here
    nowhere     the request's own trouble (refused, context_length): every backend would say the same

Specification:
- Every first attempt earns `ratio` retries, every retry costs one; on top, `FLOOR` per second, so that a quiet route
  may always retry a little. When everything fails the load on what is left grows by at most `ratio`, not by `attempts`.
- A retry excludes the backends tried so far. Where that leaves none, an `anywhere` failure starts over with no
  exclusion after a wait, others end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from silva.models.errors import ModelError

Where = Literal["elsewhere", "anywhere", "nowhere"]

FLOOR = 1.0
"""Retries per second that are always allowed."""

FLOOR_MOST = 5.0
"""How many of those can be saved up."""

EARNED_MOST = 100.0
"""How many earned ones can be saved up."""

FAULTS = frozenset({"unreachable", "timeout", "server", "garbage", "auth", "missing", "quota"})
"""Kinds of failure that are the backend's own trouble."""


def where(error: ModelError) -> Where:
    """Where a failed request may be tried again."""
    if error.kind in FAULTS:
        return "elsewhere"
    return "anywhere" if error.transient else "nowhere"


@dataclass(frozen=True, slots=True)
class Again:
    """Try again: not on `exclude`, after `wait` seconds."""

    exclude: frozenset[str]
    wait: float = 0.0


class RetryBudget:
    """How many retries a route may still make; every method is told the time.

    Args:
        ratio: retries per request, on average.
        attempts: how often one request is tried at most.
    """

    __slots__ = ("_at", "_earned", "_floor", "attempts", "made", "ratio")

    def __init__(self, ratio: float, attempts: int) -> None:
        self.ratio = ratio
        self.attempts = attempts
        self.made = 0
        """How many retries were made."""
        self._earned = 0.0
        self._floor = FLOOR_MOST
        self._at: float | None = None

    def earn(self) -> None:
        """A first attempt begins."""
        self._earned = min(EARNED_MOST, self._earned + self.ratio)

    def spend(self, now: float) -> bool:
        """Take one retry, if there is one."""
        if self._at is not None:
            self._floor = min(FLOOR_MOST, self._floor + (now - self._at) * FLOOR)
        self._at = now
        if self._earned >= 1.0:
            self._earned -= 1.0
        elif self._floor >= 1.0:
            self._floor -= 1.0
        else:
            return False
        return True

    def again(
        self, error: ModelError, tried: Collection[str], attempts: int, others: Collection[str], now: float
    ) -> Again | None:
        """How to go on after a failure, or None where the client must be told.

        Args:
            error: the failure.
            tried: backends tried since the last start over, the failed one included.
            attempts: how many attempts there were in all.
            others: names of the backends that could be asked now.
            now: the time.
        """
        place = where(error)
        if place == "nowhere" or attempts >= self.attempts:
            return None
        left = any(name not in tried for name in others)
        if not left and place == "elsewhere":
            return None
        if not self.spend(now):
            return None
        if left:
            return Again(frozenset(tried))
        return Again(frozenset(), max(error.retry_after or 0.0, 0.1 * 2.0 ** (attempts - 1)))
