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
        self._fleet: Fleet | None = None
        for one in configured:
            endpoint = Endpoint(url=one.url, model=one.model, api_key_env=one.api_key_env).checked()
            name, count = endpoint.shown, 1
            while name in self._backends:
                count += 1
                name = f"{endpoint.shown} ({count})"
            self._backends[name] = Backend(
                name=name,
                url=endpoint.url,
                kind=one.kind,
                model=one.model,
                api_key_env=one.api_key_env,
                headers=one.headers,
                ids=one.ids,
                max_tokens_field=one.max_tokens_field,
            )

    async def start(self, fleet: Fleet) -> None:
        """Tell the fleet of them."""
        self._fleet = fleet
        for backend in self._backends.values():
            fleet.add(backend)

    async def stop(self) -> None:
        """Take them away."""
        if self._fleet is not None:
            for name in self._backends:
                self._fleet.remove(name)

    def backends(self) -> tuple[Backend, ...]:
        """All of them."""
        return tuple(self._backends.values())

    def demand(self, waiting: int, in_flight: int, now: float) -> None:
        """Nothing can be done: there are as many as there are."""
