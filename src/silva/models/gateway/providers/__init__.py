"""Providers: where a route's backends come from, and how their number follows the load.

StaticProvider   they are there          ProcessProvider   local processes, started and stopped by load
PackageBackends  what a package brings   LocalProvider     the bundled model, as such processes
"""

from __future__ import annotations

from silva.models.gateway.config import LocalBackends, PackageBackends, ProcessBackends, Route, StaticBackend
from silva.models.gateway.providers.provider import Provider

__all__ = ["Provider", "open_providers"]


def open_providers(name: str, route: Route) -> list[Provider]:
    """The providers of a route, none started yet.

    Args:
        name: the route's; backends that have no url of their own are called after it.
        route: how it is configured.

    Raises:
        UsageError: a url cannot be used.
    """
    from silva.models.gateway.providers.local import LocalProvider
    from silva.models.gateway.providers.process import ProcessProvider
    from silva.models.gateway.providers.static import StaticProvider

    static = [one for one in route.backends if isinstance(one, StaticBackend)]
    found: list[Provider] = [StaticProvider(static)] if static else []
    for index, one in enumerate(route.backends):
        called = name if len(route.backends) == 1 else f"{name}.{index}"
        if isinstance(one, ProcessBackends):
            found.append(ProcessProvider(called, one))
        elif isinstance(one, LocalBackends):
            found.append(LocalProvider(called, one))
        elif isinstance(one, PackageBackends):
            found.append(one.provided(called))
    return found
