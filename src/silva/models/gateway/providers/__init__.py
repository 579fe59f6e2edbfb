"""Providers: where a route's backends come from, and how their number follows the load.

StaticProvider   they are there          ProcessProvider   local processes, started and stopped by load
RayProvider      a Ray Serve application LocalProvider     the bundled model, as such processes
"""

from __future__ import annotations

from silva.models.gateway.config import LocalBackends, ProcessBackends, RayBackends, Route, StaticBackend
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
    from silva.models.gateway.providers.scaling import Scaling
    from silva.models.gateway.providers.static import StaticProvider

    static = [one for one in route.backends if isinstance(one, StaticBackend)]
    found: list[Provider] = [StaticProvider(static)] if static else []
    for index, one in enumerate(route.backends):
        called = name if len(route.backends) == 1 else f"{name}.{index}"
        if isinstance(one, ProcessBackends):
            found.append(ProcessProvider.configured(called, one))
        elif isinstance(one, LocalBackends):
            found.append(LocalProvider(called, one))
        elif isinstance(one, RayBackends):
            from silva.models.gateway.providers.ray_serve import RayProvider  # the extra `ray`'s

            scaling = None if one.most is None else Scaling(one.least, one.most, one.target, one.idle)
            found.append(RayProvider(called, one, scaling))
    return found
