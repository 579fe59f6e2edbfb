"""Routing: which backend a request goes to, when, and what happens while none can take it.

Router.lease ─▶ choice ─▶ Lease ─ outcome ─▶ breaker, limiter
             └▶ queue (line, fair between runs)    attempts (retries)
Router.swap                                        fleet ◀─ providers, health
"""

from silva.models.gateway.routing.attempts import Attempts
from silva.models.gateway.routing.backend import Backend, BackendState, Kind
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.lease import Lease
from silva.models.gateway.routing.refused import Refused
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
