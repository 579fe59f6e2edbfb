"""What a route looks like at one moment, for metrics and status pages."""

from __future__ import annotations

import msgspec

from silva.models.gateway.routing.backend import BackendState
from silva.tree import Record


class BackendSnapshot(Record, frozen=True, kw_only=True):
    """One backend: `phase` is its breaker's, `openings` how often that opened, `limit` how many it may have in flight,
    `trouble` its last failure."""

    name: str
    kind: str
    healthy: bool
    draining: bool
    phase: str
    outstanding: int
    limit: int
    served: int
    openings: int = 0
    version: str = ""
    trouble: str = ""


class RouteSnapshot(Record, frozen=True, kw_only=True):
    """One route: `stage` is its rollover's, `error` why the last one failed,
    `expected` how many backends are on their way, `retried` how many attempts were second ones or later, `refused`
    counts by kind."""

    name: str
    stage: str
    paused: bool
    version: str
    error: str
    waiting: int
    in_flight: int
    granted: int
    expected: int
    retried: int = 0
    refused: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    backends: tuple[BackendSnapshot, ...] = ()


def backend_snapshot(state: BackendState) -> BackendSnapshot:
    """One backend's."""
    return BackendSnapshot(
        name=state.backend.name,
        kind=state.backend.kind,
        healthy=state.healthy,
        draining=state.draining,
        phase=state.breaker.phase,
        outstanding=state.outstanding,
        limit=state.limiter.limit,
        served=state.served,
        openings=state.breaker.openings,
        version=state.version,
        trouble=state.trouble,
    )
