"""The one way out of a sandbox: an HTTP proxy that lets named hosts through.

    program inside ─▶ 127.0.0.1:3128 of the sandbox (a socket made inside, served here) ─▶ allow-list ─▶ the host

It answers CONNECT (for TLS, which it does not open) and plain HTTP. A name on the list that leads to an address of this
machine or of a private network is refused, unless that address itself is on the list: a name server is not believed.

Connections are bounded (`silva.sandbox.room`), and one that nothing goes through is closed after a while.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import time
from typing import Self
from urllib.parse import urlsplit

from silva.errors import UsageError
from silva.sandbox.listener import Listener, pump
from silva.sandbox.room import Guest, Room

_CONNECT_SECONDS = 20
_IDLE_SECONDS = 300.0
_OWN_HEADERS = (b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive")
_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_RULE = re.compile(r"(?P<host>\*\.[\w.-]+|[\w.-]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d+))?")


class Allowed:
    """An allow-list: `host`, `host:port`, `*.domain` (not the domain itself), addresses literally."""

    def __init__(self, rules: tuple[str, ...]) -> None:
        self._rules: list[tuple[str, int | None]] = []
        for rule in rules:
            found = _RULE.fullmatch(rule)
            if found is None:
                raise UsageError(f"network: {rule!r} is no host: write HOST, HOST:PORT or *.DOMAIN")
            port = found["port"]
            self._rules.append((found["host"].strip("[]").lower(), None if port is None else int(port)))

    def lets(self, host: str, port: int) -> bool:
        """Whether this host and port may be reached. Without a port, a rule is for 80 and 443."""
        host = host.strip("[]").rstrip(".").lower()
        for name, wanted in self._rules:
            fits = host.endswith(name[1:]) and len(host) > len(name) - 1 if name.startswith("*.") else host == name
            if fits and (port == wanted if wanted is not None else port in (80, 443)):
                return True
        return False


class Proxy(Listener):
    """A proxy on one listening socket. Make one by `Proxy.open`.

    Attributes:
        refused: hosts that were asked for and not let through, with how often.
        reached: hosts that were, with how often.
    """

    def __init__(self, allowed: Allowed, room: Room, idle: float) -> None:
        super().__init__(room)
        self._allowed = allowed
        self._idle = idle
        self.refused: dict[str, int] = {}
        self.reached: dict[str, int] = {}

    @classmethod
    async def open(
        cls,
        listening: socket.socket,
        rules: tuple[str, ...],
        room: Room | None = None,
        *,
        idle: float = _IDLE_SECONDS,
    ) -> Self:
        """Serve on a socket that listens already.

        Args:
            listening: the socket.
            rules: what may be reached.
            room: where connections are counted; one of its own when left out.
            idle: seconds without a byte after which a connection is closed.

        Raises:
            UsageError: a rule is none.
        """
        return await cls(Allowed(rules), room or Room(), idle)._begin(listening)

    def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        _refuse(writer, 503, "too many connections at once: close some")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, guest: Guest) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _CONNECT_SECONDS)
        first, _, headers = head.partition(b"\r\n")
        words = first.decode("latin-1").split(" ")
        if len(words) != 3:
            _refuse(writer, 400, "no request of HTTP")
            return
        method, target, version = words
        try:
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = parts.hostname or "", parts.port or (443 if method == "CONNECT" else 80)
        except ValueError:
            parts, host, port = urlsplit(""), "", 0
        if not host or (method != "CONNECT" and parts.scheme != "http"):
            _refuse(writer, 400, "the proxy takes CONNECT host:port and http:// addresses")
            return
        if not self._allowed.lets(host, port):
            self.refused[f"{host}:{port}"] = self.refused.get(f"{host}:{port}", 0) + 1
            _refuse(writer, 403, f"{host}:{port} is not on this sandbox's list of hosts")
            return
        try:
            address = await asyncio.wait_for(self._address(host, port), _CONNECT_SECONDS)
            theirs = await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_SECONDS)
        except PermissionError as error:
            self.refused[f"{host}:{port}"] = self.refused.get(f"{host}:{port}", 0) + 1
            _refuse(writer, 403, str(error))
            return
        except (OSError, TimeoutError, UnicodeError):
            _refuse(writer, 502, f"{host}:{port} cannot be reached")
            return
        self.reached[f"{host}:{port}"] = self.reached.get(f"{host}:{port}", 0) + 1
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = parts.path or "/"
            target = f"{path}?{parts.query}" if parts.query else path
            theirs[1].write(f"{method} {target} {version}\r\n".encode("latin-1") + _forwarded(headers))
        await self._between(guest, (reader, writer), theirs)

    async def _address(self, host: str, port: int) -> str:
        for address in await self._room.addresses(self._guests, host, port):
            place = ipaddress.ip_address(address.partition("%")[0])
            if place.is_global or self._allowed.lets(str(place), port):
                return str(place)
        raise PermissionError(
            f"{host} leads to an address of this machine or a private network, which is not on the list"
        )

    async def _between(self, guest: Guest, ours: _Ends, theirs: _Ends) -> None:
        # Once the far side has closed, nothing more can come: what is still sent to it is lost either way.
        sending = asyncio.ensure_future(pump(ours[0], theirs[1], guest))
        receiving = asyncio.ensure_future(pump(theirs[0], ours[1], guest))
        try:
            while not receiving.done() and (left := guest.last + self._idle - time.monotonic()) > 0:
                await asyncio.wait({receiving}, timeout=left)
        finally:
            for each in (sending, receiving):
                each.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)
            theirs[1].close()
            if guest.last + self._idle <= time.monotonic():
                ours[1].transport.abort()  # what was not taken in all that time is not waited for


def _forwarded(headers: bytes) -> bytes:
    kept = [line for line in headers.split(b"\r\n") if line and line.partition(b":")[0].lower() not in _OWN_HEADERS]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


def _refuse(writer: asyncio.StreamWriter, code: int, why: str) -> None:
    body = f"silva: {why}\n".encode()
    names = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}
    head = f"HTTP/1.1 {code} {names[code]}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
