"""Choosing a backend for one request.

    all ─ eligible (well, staying, breaker lets pass) ─ not tried yet ─ has room ─▶ one
                                                                      │ with session: first in rendezvous order that
                                                                      │   is not overfull
                                                                      └ without: least outstanding per weight

Specification:
- What is chosen is eligible, not excluded and below its limit.
- A session stays where it belongs unless that backend is *overfull*: above (1 + EXTRA) of its fair share of what is in
  flight on eligible backends, and above `SLACK` per unit of weight (a few requests are no load, and moving loses the
  prefix cache). Then it goes to the next in its own order, so that its overflow, too, finds a cache.
- Where all with room are overfull the emptiest by weight is taken: a request never waits for affinity.
- None means nothing can be chosen now; `Nothing` says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from silva.models.gateway.routing.affinity import rendezvous, score, session_hash
from silva.models.gateway.routing.backend import BackendState

EXTRA = 0.25
SLACK = 4

Nothing = Literal["busy", "exhausted", "held", "absent"]
"""Why nothing can be chosen: all are at their limits; all were tried; those that are there asked to be left alone for
a while (Retry-After); none is there."""


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
    roomy: list[BackendState] = []
    weight, total = 0.0, 1
    for state in states:
        if state.eligible(now):
            outstanding = state.outstanding
            weight += state.backend.weight
            total += outstanding
            if outstanding < state.limiter.limit and (not exclude or state.backend.name not in exclude):
                roomy.append(state)
    if len(roomy) < 2:
        return roomy[0] if roomy else None
    if session:
        share = (1.0 + EXTRA) * total / weight
        hashed = session_hash(session)
        home, most = roomy[0], 0.0
        for state in roomy:
            if (wanted := score(hashed, state)) > most:
                home, most = state, wanted
        if not _overfull(home, share):
            return home
        for state in rendezvous(session, roomy):
            if not _overfull(state, share):
                return state
    return min(roomy, key=_load)


def why_nothing(states: Iterable[BackendState], now: float, exclude: Collection[str] = ()) -> Nothing:
    """Why `choose` gave None."""
    eligible = [state.backend.name for state in states if state.eligible(now)]
    if not eligible:
        return "held" if any(state.is_held(now) for state in states) else "absent"
    return "exhausted" if all(name in exclude for name in eligible) else "busy"


def _overfull(state: BackendState, share: float) -> bool:
    """Whether one more request is too many, where `share` is how many a weight of 1 should have at most."""
    return state.outstanding + 1 > max(share, SLACK) * state.backend.weight


def _load(state: BackendState) -> tuple[float, int]:
    return (state.outstanding + 1) / state.backend.weight, state.served
