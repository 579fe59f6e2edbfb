"""A circuit breaker: stops asking a backend that only fails, and lets one request find out whether it is well again.

    closed ── `failures` in a row ──▶ open ── after `open_seconds` ──▶ half-open (one probe)
      ▲                                ▲                                  │
      └────────── probe succeeds ──────┼──────────────────────────────────┤
                                       └────────── probe fails ───────────┘

Specification:
- Closed, every request may pass. Failures count only in a row: one success forgets them.
- Open, none may pass until `open_seconds` after it opened.
- Half-open, exactly one request is under way at a time, the probe; its outcome alone decides. A probe that was
  cancelled decides nothing and makes room for the next.
- A request's outcome counts only in the state it began in: what began before the breaker opened neither closes it
  nor holds it open longer. `begin` gives a ticket for that, which the outcome brings back.
"""

from __future__ import annotations

from typing import Literal

Phase = Literal["closed", "open", "half_open"]


class Breaker:
    """One backend's breaker; every method is told the time.

    Args:
        failures: so many in a row open it, at least 1.
        open_seconds: how long it stays open before a probe may pass.
    """

    __slots__ = ("_era", "_in_a_row", "_opened", "_probing", "failures", "open_seconds", "openings", "phase")

    def __init__(self, failures: int, open_seconds: float) -> None:
        self.failures = failures
        self.open_seconds = open_seconds
        self.openings = 0
        self.phase: Phase = "closed"
        self._in_a_row = 0
        self._opened = 0.0
        self._era = 0
        self._probing = False

    def allows(self, now: float) -> bool:
        """Whether a request may begin now."""
        if self.phase == "closed":
            return True
        return now >= self.reopens and not self._probing

    @property
    def reopens(self) -> float:
        """When a probe may pass at the earliest; meaningless while closed."""
        return self._opened + self.open_seconds

    @property
    def probing(self) -> bool:
        """Whether the one probe of a half-open breaker is under way."""
        return self._probing

    def begin(self, now: float) -> int:
        """A request begins, which `allows` permitted; gives the ticket its outcome must bring back."""
        if self.phase == "open":
            self._change("half_open")
        if self.phase == "half_open":
            self._probing = True
        return self._era

    def succeeded(self, ticket: int) -> None:
        """The request with that ticket was answered."""
        if ticket != self._era:
            return
        self._in_a_row = 0
        if self.phase == "half_open":
            self._change("closed")

    def failed(self, ticket: int, now: float) -> None:
        """The request with that ticket failed by the backend's fault."""
        if ticket != self._era:
            return
        self._in_a_row += 1
        if self.phase == "half_open" or self._in_a_row >= self.failures:
            self._opened = now
            self.openings += 1
            self._change("open")

    def cancelled(self, ticket: int) -> None:
        """The request with that ticket ended without saying anything about the backend."""
        if ticket == self._era:
            self._probing = False

    def _change(self, phase: Phase) -> None:
        self.phase = phase
        self._era += 1
        self._in_a_row = 0
        self._probing = False
