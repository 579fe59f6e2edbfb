"""Backends that are there already: they are told to the fleet once, and health checks do the rest."""

from __future__ import annotations

from collections.abc import Iterable

from silva.models.endpoint import Endpoint
from silva.models.gateway.config import StaticBackend
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.fleet import Fleet


class StaticProvider:
    """The route's static backends, named by their urls.

    Args:
        configured: what the configuration says of them.

    Raises:
        UsageError: a url cannot be used.
    """

    def __init__(self, configured: Iterable[StaticBackend]) -> None:
        self._backends: dict[str, Backend] = {}
        for one in configured:
            endpoint = Endpoint(url=one.url, model=one.model, api_key_env=one.api_key_env).checked()
            name, count = endpoint.shown, 1
            while name in self._backends:
                count += 1
                name = f"{endpoint.shown} ({count})"
            said = one.model_dump(exclude={"provider", "url"})
            self._backends[name] = Backend(name=name, url=endpoint.url, **said)

    async def start(self, fleet: Fleet) -> None:
        """Tell the fleet of them."""
        for backend in self._backends.values():
            fleet.add(backend)

    async def stop(self) -> None:
        """They are not ours to stop; nobody is given one any more once the router is closed."""
