"""One connection of a server: what uvicorn's HTTP protocol does, and what Silva's servers need besides."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from silva.models.serving.bounds import LEAST_RATE, Awaited, Bounds
from silva.models.serving.exchange import ABORT, LEFT, WHOLE

LINGER_SECONDS = 5.0
"""How long a client that was refused may go on sending: on a connection closed before that, the system takes back the
answer that it has not read yet."""
LINGERING = 64
"""Connections beyond the server's bound that may linger; those beyond are closed at once."""


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with a way to drop the connection (fault injection needs one), to hear of a client
    that hangs up without a task that waits for it, to hang up on one that stays and reads nothing, and to answer in one
    write: uvicorn's two wake a client twice. It keeps to the server's bounds before anybody is asked for a token."""

    def __init__(self, *given: Any, bounds: Bounds, awaited: Awaited, **named: Any) -> None:
        super().__init__(*given, **named)
        self._bounds = bounds
        self._awaited = awaited
        self._left: Callable[[], object] | None = None
        self._silence = self._until = math.inf
        self._dropping: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._lost = False
        self._refused = False
        self._in_head = self._arriving = self._long = self._is_awaited = False
        self._since = self._progress = 0.0
        self._size = self._head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore
        """A client is there."""
        super().connection_made(transport)
        most = self._bounds.connections
        if most is not None and len(self.connections) > most:
            self._refuse(503, f"this server takes {most} connections at once: come again", b"retry-after: 1\r\n")
        else:
            self._await(0)

    def data_received(self, data: bytes) -> None:
        """A piece of a request, or several requests."""
        if self._refused:
            return
        was_in_head = self._in_head
        self._long = was_in_head or len(data) > self._bounds.head
        super().data_received(data)
        if self._arriving or self._is_awaited or self.cycle is None or self.cycle.response_complete:
            self._came(len(data), was_in_head)

    def _came(self, size: int, was_in_head: bool) -> None:
        """What has come is not just one request in one piece."""
        cycle = self.cycle
        if self._refused or self._lost:
            return
        if not self._arriving and cycle is not None and not cycle.response_complete:
            self._is_awaited = False
            self._awaited.let_go(self)
            return
        self._await(size)
        if self._in_head:
            if was_in_head:
                self._head_size += size
            if max(self._head_size, self._head()) > self._bounds.head:
                self._refuse_head()

    def _await(self, size: int) -> None:
        now = self.loop.time()
        if not self._is_awaited:
            self._is_awaited = True
            self._since, self._size = now, 0
            self._awaited.hold(self, self.loop)
        self._progress = now
        self._size += size

    def overdue(self, now: float, seconds: float) -> bool:
        """Whether a request that is awaited has taken too long, and not because it is read slowly here."""
        if self.flow.read_paused:
            self._progress = now
            return False
        return now - self._progress > seconds or now - self._since > seconds + self._size / LEAST_RATE

    def time_out(self) -> None:
        """End a connection on which a request did not come."""
        self._is_awaited = False
        if self._arriving:
            self._refuse(408, f"the request did not come within {self._bounds.seconds:g} seconds")
        else:
            self.transport.close()

    def on_headers_complete(self) -> None:
        """The head of a request is there: it is read, unless it is too long."""
        if self._long and self._head() > self._bounds.head:
            self._refuse_head()
            raise ValueError("the head is too long")  # so the parser reads no more
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of a request is there."""
        self._arriving = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, unless it was refused already."""
        if not self._refused:
            self._refused = True
            super().send_400_response(msg)

    def _head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse_head(self) -> None:
        most = self._bounds.head
        if len(self.url) > most or not self.headers:
            self._refuse(414, f"the URL is longer than {most} bytes")
        else:
            self._refuse(431, f"the headers are longer than {most} bytes")

    def _refuse(self, status: int, why: str, more: bytes = b"") -> None:
        """Answer in the server's own name where nothing else is being answered, and end the connection."""
        self._refused = True
        cycle = self.cycle
        if self._in_head or cycle is None:
            free = cycle is None or cycle.response_complete
        else:
            free = not (self.pipeline or cycle.response_started)
        if free:
            kind = "server_error" if status > 499 else "invalid_request_error"
            body = msgspec.json.encode({"error": {"message": why, "type": kind}})
            parts = (b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body), more)
            self.transport.write(b"".join((STATUS_LINE[status], *parts, b"connection: close\r\n\r\n", body)))
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """End the connection once the client has ended, too; what it sends until then nobody reads."""
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:  # somebody waits for the rest of its request
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        most = self._bounds.connections
        if self.transport.is_closing() or (most is not None and len(self.connections) > most + LINGERING):
            self.transport.close()
            return
        self._is_awaited = False
        self._awaited.let_go(self)
        self.transport.write_eof()
        self.flow.resume_reading()
        self._lingering = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._in_head = self._arriving = True
        self._head_size = 0
        super().on_message_begin()
        extensions: dict[str, Any] = self.scope.setdefault("extensions", {})  # pyright: ignore
        extensions[ABORT] = self.transport.abort
        extensions[LEFT] = self._when_left
        extensions[WHOLE] = self._whole

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        super().connection_lost(exc)
        self._lost = True
        self._awaited.let_go(self)
        if self._lingering is not None:
            self._lingering.cancel()
        self._keep()
        if self._left is not None:
            left, self._left = self._left, None
            left()

    def _whole(self, scope: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        cycle = self.cycle
        if cycle.scope is not scope or cycle.response_started or cycle.flow.write_paused or scope["method"] == "HEAD":
            return False  # another request came meanwhile, or this one is answered in another way
        if cycle.disconnected:
            return True
        parts = [STATUS_LINE[status]]
        for name, value in headers:
            if b"\n" in value or b"\r" in value:
                return False  # uvicorn refuses it
            if name == b"connection" and value == b"close":
                cycle.keep_alive = False
            parts += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive and (b"connection", b"close") not in headers:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self.transport.write(b"".join(parts))
        cycle.message_event.set()
        if not cycle.keep_alive:
            if self._arriving:  # it was answered before all of it had come
                self._linger()
                return True
            self.transport.close()
        cycle.on_response()
        return True

    def pause_writing(self) -> None:
        """The client has not taken what was sent to it; more would only lie here."""
        super().pause_writing()
        self._drop_later()

    def resume_writing(self) -> None:
        """The client has taken most of it."""
        super().resume_writing()
        self._keep()

    def _when_left(self, left: Callable[[], object] | None, silence: float, seconds: float) -> None:
        if left is not None and self._lost:
            left()
            return
        self._left, self._silence = left, silence
        self._until = self.loop.time() + seconds
        self._keep()
        if self.flow.write_paused:
            self._drop_later()

    def _drop_later(self) -> None:
        if self._left is not None and self._dropping is None:
            ends = min(self.loop.time() + self._silence, self._until)
            if ends < math.inf:
                self._dropping = self.loop.call_at(ends, self.transport.abort)

    def _keep(self) -> None:
        if self._dropping is not None:
            self._dropping.cancel()
            self._dropping = None
