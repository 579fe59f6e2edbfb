"""One HTTP exchange over raw ASGI: the ways a server answers, and the ways a broken one does not."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from silva.models.serving.bounds import Room

ABORT = "silva.abort"
"""ASGI extension of Silva's servers: a function that drops the connection at once."""

LEFT = "silva.left"
"""ASGI extension of Silva's servers: give it a function, which is called if the client hangs up first, and how long one
may take nothing of what is sent before it is hung up on, at a time and in all."""

WHOLE = "silva.whole"
"""ASGI extension of Silva's servers: give it the scope, a status, headers and a body, which leave in one piece; False
where they cannot and must be sent as messages. (The scope is given, not held: a scope that held itself would stay until
somebody looks for cycles.)"""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Whole = Callable[[Scope, int, list[tuple[bytes, bytes]], bytes], bool]

LARGEST_BODY = 64 * 1024 * 1024


class Refusal(Exception):
    """An answer that is an HTTP error in OpenAI's form."""

    def __init__(self, status: int, message: str, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after

    def body(self) -> bytes:
        """The JSON of the error."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return msgspec.json.encode({"error": {"message": str(self), "type": kind, "code": self.code}})


class Exchange:
    """One request and what is sent back. `unread`: not all of its body was read, so that the connection is of no more
    use."""

    __slots__ = ("_receive", "_room", "_send", "_taken", "headers", "left", "scope", "started", "unread")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.started = False
        self.left = False
        self.unread = False
        self._room: Room | None = None
        self._taken = 0
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str:
        """The header's value ("" where absent); `name` in lower case."""
        for known, value in self.headers:
            if known == name:
                return value.decode("latin-1")
        return ""

    def bearer(self) -> bytes:
        """The token that the client showed ("" where there is none)."""
        scheme, _, given = self.header(b"authorization").partition(" ")
        return given.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""

    async def body(self, largest: int = LARGEST_BODY, room: Room | None = None) -> bytes:
        """The whole body. One that comes in pieces takes its bytes of the `room`, until it is `released`.

        Raises:
            Refusal: it is larger than this server takes (`largest` bytes), or others have taken the room, and what
                follows is not read; or its client has left.
        """
        announced = self.header(b"content-length")
        if announced.isdigit() and int(announced) > largest:
            self.unread = True
            raise Refusal(413, f"the request is larger than {largest} bytes")
        message = await self._message()
        data: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return data
        self._room = room
        chunks, size = [data], len(data)
        try:
            self._take(len(data))
            while message.get("more_body"):
                message = await self._message()
                chunk: bytes = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                if size > largest:
                    raise Refusal(413, f"the request is larger than {largest} bytes")
                self._take(len(chunk))
        except BaseException:
            self.unread = True
            self.release()
            raise
        return b"".join(chunks)

    async def _message(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the request broke off")
        return message

    def release(self) -> None:
        """The body is read, and what it took of the room is free again."""
        if self._room is not None:
            self._room.give_back(self._taken)
            self._room, self._taken = None, 0

    def _take(self, size: int) -> None:
        if self._room is None:
            return
        if not self._room.take(size):
            raise Refusal(429, f"large requests take {self._room.most} bytes already: come again", retry_after=1.0)
        self._taken += size

    async def gone(self) -> None:
        """Return once the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def on_leave(self, left: Callable[[], object] | None, silence: float = math.inf, seconds: float = math.inf) -> None:
        """Have `left` called if the client hangs up before the answer's end; None takes that back.

        Args:
            left: what to call.
            silence: a client that has not taken what was sent for so many seconds is hung up on.
            seconds: so is one that still has not when so many have passed from now.
        """
        self.scope["extensions"][LEFT](left, silence, seconds)

    async def send(
        self,
        status: int,
        body: bytes,
        content_type: bytes = b"application/json",
        headers: tuple[tuple[bytes, bytes], ...] = (),
        length: int | None = None,
    ) -> None:
        """Answer in one piece. `length` announces another length than the body has."""
        if length is None:
            whole: Whole | None = self.scope.get("extensions", {}).get(WHOLE)
            if whole is not None and whole(self.scope, status, _fields(content_type, headers, len(body)), body):
                self.started = True
                return
        await self._start(status, content_type, headers, length if length is not None else len(body))
        await self._send({"type": "http.response.body", "body": body, "more_body": length is not None})

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with an error."""
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if refusal.retry_after is not None:
            headers = ((b"retry-after", f"{refusal.retry_after:g}".encode()),)
        await self.send(refusal.status, refusal.body(), headers=headers)

    async def refuse_kind(
        self, status: int, kind: str, message: str, *, retry_after: float | None = None, unread: bool = False
    ) -> None:
        """Answer with an error that has a kind of its own, or drop an answer that has begun. `retry_after` is in
        seconds; `unread` says that the body may not have been read, so that the connection is of no more use."""
        if self.started:
            await self.abort()
            return
        headers: list[tuple[bytes, bytes]] = []
        if retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(retry_after))))
        if unread:
            headers.append((b"connection", b"close"))
        error = {"error": {"kind": kind, "message": message}}
        await self.send(status, msgspec.json.encode(error), headers=tuple(headers))

    async def begin_events(self, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Begin an answer of server-sent events."""
        await self._start(200, b"text/event-stream", ((b"cache-control", b"no-cache"), *headers), None)

    async def event(self, data: bytes) -> None:
        """Send one event, already framed."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End the answer."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def abort(self) -> None:
        """Drop the connection as a dying server would."""
        await asyncio.sleep(0)  # lets bytes already sent leave first
        self.scope["extensions"][ABORT]()

    async def _start(
        self, status: int, content_type: bytes, headers: tuple[tuple[bytes, bytes], ...], length: int | None
    ) -> None:
        self.started = True
        fields = _fields(content_type, headers, length)
        await self._send({"type": "http.response.start", "status": status, "headers": fields})


def _fields(
    content_type: bytes, headers: tuple[tuple[bytes, bytes], ...], length: int | None
) -> list[tuple[bytes, bytes]]:
    fields = [(b"content-type", content_type), *headers]
    if length is not None:
        fields.append((b"content-length", b"%d" % length))
    return fields
