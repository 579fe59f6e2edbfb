"""Routing: which backend a request goes to, when, and what happens while none can take it.

Router.lease ─▶ choice (affinity, bounded load) ─▶ Lease ─ outcome ─▶ breaker, limiter
             └▶ queue (fairness, admission)        attempts (retries)
Router.swap  ─▶ rollover                           fleet ◀─ providers, health
"""

from silva.models.gateway.routing.admission import Refused
from silva.models.gateway.routing.attempts import Attempts
from silva.models.gateway.routing.backend import Backend, BackendState, Kind
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.lease import Lease
from silva.models.gateway.routing.router import Router
from silva.models.gateway.routing.snapshot import BackendSnapshot, RouteSnapshot

__all__ = [
    "Attempts",
    "Backend",
    "BackendSnapshot",
    "BackendState",
    "Fleet",
    "Kind",
    "Lease",
    "Refused",
    "RouteSnapshot",
    "Router",
]
