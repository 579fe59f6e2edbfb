"""The check of a request's Host that stands before every application that `silva.models.serving.server` runs."""

from __future__ import annotations

from typing import Any

from silva.hosts import REFUSAL, Hosts
from silva.models.serving.exchange import Exchange, Receive, Refusal, Scope, Send


class Named:
    """An ASGI application that hands on what names this server, and refuses the rest with 421 (RFC 9110, 15.5.20).

    A request without a Host is no browser's, and is handed on; one with two is refused.
    """

    def __init__(self, application: Any, hosts: Hosts) -> None:
        self._application, self._hosts = application, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            named = [value for name, value in scope["headers"] if name == b"host"]
            if named and (len(named) > 1 or not self._hosts.known(named[0])):
                refusal = Refusal(421, REFUSAL, "host_unknown").body()
                await Exchange(scope, receive, send).send(421, refusal, headers=((b"connection", b"close"),))
                return
        await self._application(scope, receive, send)
