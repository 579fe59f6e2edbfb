"""HTTP/1.1 over plain TCP, kept alive: what a call to a model on this machine or next to it needs, and no more.

    post ─▶ an idle connection, or a new one ─▶ request bytes ─▶ httptools parses what comes ─▶ Response
                                                     └ hung up before a byte of the answer, on a used one: once anew

A general client spends 0.25 ms of processor time on such a call, this one a quarter of it (decision 009). TLS, proxies
and everything else stay with aiohttp.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Mapping

import httptools
from multidict import CIMultiDict
from yarl import URL

from silva.models.sizes import MOST_HEAD, TooLargeError

MOST_BUFFERED = 1 << 20
"""Bytes of a streamed answer that may wait to be read; then the sender is held back."""
IDLE = 256
"""Connections kept open for later."""
CONNECT_SECONDS = 30.0


class BrokenError(ConnectionError):
    """The connection ended before the answer did."""


class NotHttpError(OSError):
    """What came is not HTTP."""


class Response:
    """An answer whose headers have come. Read its `content` by `readany`, as it comes."""

    __slots__ = ("_chunks", "_connection", "_failure", "_size", "_waiter", "headers", "status", "whole")

    def __init__(self, connection: _Connection) -> None:
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.whole = False
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    @property
    def content(self) -> Response:
        """What is read, as aiohttp's answers have it."""
        return self

    async def readany(self) -> bytes:
        """What has come since, at least a byte; b"" at the end.

        Raises:
            BrokenError, NotHttpError: it did not come to its end.
        """
        while not self._chunks:
            if self.whole:
                return b""
            await self._more()
        data = b"".join(self._chunks)
        self._chunks.clear()
        if self._size > MOST_BUFFERED:
            self._connection.resume()
        self._size = 0
        return data

    def close(self) -> None:
        """Done with it; an answer that has not come to its end costs its connection."""
        self._connection.done(self)
        self._failure = None  # it knows who was told of it: each would keep the other

    release = close

    async def _more(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def put(self, data: bytes) -> None:
        """A piece of the body came."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size > MOST_BUFFERED and self._waiter is None:
            self._connection.pause()
        self.wake()

    def fail(self, failure: BaseException) -> None:
        """Nothing more will come."""
        self._failure = failure
        self.wake()

    def wake(self) -> None:
        """Something is new."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, pool: Plain) -> None:
        self._pool = pool
        self._parser: httptools.HttpResponseParser | None = None
        self._head: asyncio.Future[Response] | None = None
        self._response: Response | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._keeps = True
        self._headed = 0
        self.heard = False
        self.used = False

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, data: bytes) -> asyncio.Future[Response]:
        """Send a request; the future has the answer once its headers have come."""
        assert self._transport is not None
        self.heard = False
        self._headed = 0
        self._parser = httptools.HttpResponseParser(self)
        self._response = Response(self)
        self._head = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._head

    def done(self, response: Response) -> None:
        """The answer is done with."""
        if response is not self._response:
            return
        self._response = None
        if response.whole and self._keeps and self.open:
            self.used = True
            self.resume()
            self._pool.give_back(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._paused:
            self._paused = False
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # pyright: ignore[reportAttributeAccessIssue]

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._parser is None or self._response is None:  # nobody asked
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(NotHttpError(errno.EPROTO, str(error)))
            self.abort()
            return
        if self._response is not None and not self._response.status:
            self._headed += len(data)
            if self._headed > MOST_HEAD:
                self._fail(TooLargeError("the head of the reply", MOST_HEAD))
                self.abort()

    def eof_received(self) -> bool:
        # An answer without a length ends with the connection.
        response = self._response
        if response is not None and response.status and not response.whole and self._unbounded(response):
            self._keeps = False
            self.on_message_complete()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        self._fail(BrokenError(errno.ECONNRESET, "the connection broke before the answer was whole"))
        # They know this connection, and each would keep the other.
        self._parser = self._head = self._response = self._transport = None

    def _fail(self, failure: OSError) -> None:
        if self._head is not None and not self._head.done():
            self._head.set_exception(failure)
        elif self._response is not None and not self._response.whole:
            self._response.fail(failure)

    def _unbounded(self, response: Response) -> bool:
        return "content-length" not in response.headers and "chunked" not in response.headers.get(
            "transfer-encoding", ""
        )

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._response is not None
        self._response.headers.add(name.decode("latin-1"), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        assert self._response is not None and self._parser is not None and self._head is not None
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer; the real one follows
            self._response.headers.clear()
            return
        self._response.status = status
        self._keeps = self._parser.should_keep_alive()
        if not self._head.done():
            self._head.set_result(self._response)

    def on_body(self, data: bytes) -> None:
        assert self._response is not None
        self._response.put(data)

    def on_message_complete(self) -> None:
        response = self._response
        if response is not None and response.status:
            response.whole = True
            response.wake()


class Plain:
    """The connections to one server. Use it within one event loop.

    Args:
        url: an http url; its path is what is posted to.
    """

    def __init__(self, url: URL) -> None:
        self._host = url.host or ""
        self._port = url.port or 80
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._head = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {host}:{self._port}\r\nAccept: */*\r\n".encode()
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """Post a body; returns once the answer's headers have come. `close` the response when done with it.

        Raises:
            OSError: no connection could be made.
            BrokenError: the server hung up.
            NotHttpError: what came is not HTTP.
            TooLargeError: its headers do not end.
        """
        lines = b"".join(_line(name, value) for name, value in headers.items())
        data = b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, lines, len(body), body)
        while True:
            connection = await self._connection()
            try:
                return await connection.ask(data)
            except BrokenError:
                # A server may close an idle connection just as it is used again; it has then read nothing of this.
                if not connection.used or connection.heard:
                    raise
            except BaseException:
                connection.abort()
                raise

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._all):
            connection.abort()
        self._all.clear()
        self._idle.clear()

    def give_back(self, connection: _Connection) -> None:
        """A connection is free again."""
        if len(self._idle) < IDLE:
            self._idle.append(connection)
        else:
            connection.abort()

    def lost(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        async with asyncio.timeout(CONNECT_SECONDS):
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(lambda: _Connection(self), self._host, self._port)
        self._all.add(connection)
        return connection


def _line(name: str, value: str) -> bytes:
    if "\r" in value or "\n" in value or "\r" in name or "\n" in name:
        raise ValueError(f"header {name!r} has a line break")
    return f"{name}: {value}\r\n".encode("latin-1")
