"""The ways out of one sandbox: its proxy, where it may reach hosts, and its doors; opened with its process 1."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

from silva.sandbox.door import Door
from silva.sandbox.listener import Listener
from silva.sandbox.protocol import Spec
from silva.sandbox.proxy import Proxy
from silva.sandbox.room import Room

PROXY_PORT = 3128


class Ways:
    """Those of one sandbox, whose connections are counted in its owner's room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._open: list[Listener] = []
        self.variables: dict[str, str] = {}
        """What programs inside are told by their environment."""

    async def open(self, spec: Spec, listen: Callable[[int], Awaitable[socket.socket]]) -> None:
        """Open what a spec asks for; `listen` makes a socket that listens inside.

        Raises:
            UsageError: what may be reached is no host.
            SilvaError: a port is taken inside, or the sandbox has ended.
        """
        if spec.network:
            self._open.append(await Proxy.open(await listen(PROXY_PORT), spec.network, self._room))
            url = f"http://127.0.0.1:{PROXY_PORT}"
            self.variables = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), url)
            self.variables |= dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1")
        for port in spec.doors:
            self._open.append(await Door.open(await listen(port), port, self._room))

    async def close(self) -> None:
        """Close them, with what is under way."""
        self.variables = {}
        while self._open:
            await self._open.pop().close()
