"""Choosing a backend for one request.

    all ─ eligible (well, staying, breaker lets pass) ─ not tried yet ─ has room ─▶ one
                                                                      │ with session: the first in the session's own
                                                                      │   order that is not overfull
                                                                      └ without: least outstanding

Specification:
- What is chosen is eligible, not excluded and below its limit.
- A session's order of backends (rendezvous hashing) is the same in every process; one that leaves moves only its own
  sessions.
- A session stays where it belongs, where its prefix is cached, unless that backend is *overfull*: above (1 + EXTRA) of
  its fair share of what is in flight on eligible backends, and above `SLACK` (a few requests are no load). Then it goes
  to the next in its own order.
- Where all with room are overfull the emptiest is taken: a request never waits for affinity.
- None means nothing can be chosen now; `Nothing` says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from silva.models.gateway.routing.backend import BackendState

EXTRA = 0.25
SLACK = 4

Nothing = Literal["busy", "exhausted", "held", "absent"]
"""Why nothing can be chosen: all are at their limits; all were tried; those that are there asked to be left alone for
a while (Retry-After); none is there."""


@lru_cache(16384)
def draw(session: str, backend: str) -> bytes:
    """How much a backend wants a session: the highest is where it belongs."""
    return blake2b(f"{session}\0{backend}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def choose(
    states: Iterable[BackendState], now: float, session: str = "", exclude: Collection[str] = ()
) -> BackendState | None:
    """The backend for one request, or None where none has room for it.

    Args:
        states: the route's backends.
        now: the time.
        session: the key of its prefix affinity; "" for none.
        exclude: names of backends already tried.
    """
    eligible = [state for state in states if state.eligible(now)]
    roomy = [state for state in eligible if state.free > 0 and state.backend.name not in exclude]
    if len(roomy) < 2:
        return roomy[0] if roomy else None
    if session:
        share = (1.0 + EXTRA) * (1 + sum(state.outstanding for state in eligible)) / len(eligible)
        most = max(share, SLACK)
        for state in sorted(roomy, key=lambda state: draw(session, state.backend.name), reverse=True):
            if state.outstanding + 1 <= most:
                return state
    return min(roomy, key=lambda state: (state.outstanding, state.served))


def why_nothing(states: Iterable[BackendState], now: float, exclude: Collection[str] = ()) -> Nothing:
    """Why `choose` gave None."""
    eligible = [state.backend.name for state in states if state.eligible(now)]
    if not eligible:
        return "held" if any(state.is_held(now) for state in states) else "absent"
    return "exhausted" if all(name in exclude for name in eligible) else "busy"
