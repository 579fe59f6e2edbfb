"""What a provider is: it brings backends to a route's fleet and takes them away."""

from __future__ import annotations

from typing import Protocol

from silva.models.gateway.routing.fleet import Fleet


class Provider(Protocol):
    """One source of backends for one route."""

    async def start(self, fleet: Fleet) -> None:
        """Begin to bring backends to the fleet.

        Raises:
            SilvaError: it cannot, and what to do.
        """
        ...

    async def stop(self) -> None:
        """Take all of them away, and stop what it started."""
        ...
