"""Runs an ASGI application on uvicorn: in this process until told to stop, or in a thread beside the caller."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from silva.errors import UsageError
from silva.models.serving.exchange import ABORT, LEFT, WHOLE

STOP_SECONDS = 3
"""How long a stopping server waits for answers under way."""


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with a way to drop the connection (fault injection needs one), to hear of a client
    that hangs up without a task that waits for it, and to answer in one write: uvicorn's two wake a client twice."""

    _left: Callable[[], object] | None = None

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        extensions: dict[str, Any] = self.scope.setdefault("extensions", {})  # pyright: ignore
        extensions[ABORT] = self.transport.abort
        extensions[LEFT] = self._when_left
        extensions[WHOLE] = self._whole

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        super().connection_lost(exc)
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
            self.transport.close()
        cycle.on_response()
        return True

    def _when_left(self, left: Callable[[], object] | None) -> None:
        self._left = left


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def demand_token(host: str, token: str | None) -> None:
    """Refuse to serve others than this machine without a token.

    Raises:
        UsageError: `host` is not loopback and there is no token.
    """
    if token is None and not is_loopback(host):
        raise UsageError(
            f"serving on {host} opens the model to other machines:"
            " put a token into an environment variable and name it with --token-env"
        )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        UsageError: the address cannot be had.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host.strip("[]"), port))
        found.listen(2048)
        found.setblocking(False)
    except (OSError, OverflowError) as fault:
        raise UsageError(f"cannot serve on {host}:{port}: {fault}; choose another --port") from fault
    return found


def url_of(listening: socket.socket) -> str:
    """The base url of a server on that socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def server_config(application: Any) -> uvicorn.Config:
    """How every server of Silva's runs."""
    return uvicorn.Config(
        application,
        http=Protocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def serve_forever(
    application: Any,
    listening: socket.socket,
    announce: Callable[[str], None],
    watch: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then let answers under way finish for a moment.

    Args:
        application: the ASGI application.
        listening: from `bind`.
        announce: told the url once the socket listens.
        watch: given a function that stops the server; may call it from another thread.
    """
    server = uvicorn.Server(server_config(application))

    def stop() -> None:
        server.should_exit = True

    if watch is not None:
        watch(stop)
    announce(url_of(listening))
    run_server(server, listening)


def run_server(server: uvicorn.Server, listening: socket.socket) -> None:
    """Run until SIGINT or SIGTERM, or until the application says that it cannot start; it keeps the reason then.

    Raises:
        SystemExit: the application failed at its start without a word, by a fault of its own.
    """
    log = logging.getLogger("uvicorn.error")
    log.addFilter(_has_news)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises the signal again after a graceful stop
        return
    except SystemExit:  # so uvicorn ends where the application did not start
        if not getattr(getattr(server, "lifespan", None), "startup_failed", False):
            raise
    finally:
        log.removeFilter(_has_news)


def _has_news(record: logging.LogRecord) -> bool:
    """Not what uvicorn adds to a failed start, whose reason is told by who runs the server."""
    return record.getMessage() != "Application startup failed. Exiting."


class ServerThread:
    """A server in a thread of its own, stopped on exit. `url` is its base."""

    def __init__(self, application: Any, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        demand_token(host, token)
        self._listening = bind(host, port)
        self.url = url_of(self._listening)
        self._server = uvicorn.Server(server_config(application))
        self._thread = threading.Thread(target=self._run, name="silva-server", daemon=True)

    def _run(self) -> None:
        self._server.run(sockets=[self._listening])

    def start(self) -> ServerThread:
        """Start serving; the socket listens from the beginning, so no request is lost."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop, letting answers under way finish for a moment."""
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS + 5)

    def __enter__(self) -> ServerThread:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> ServerThread:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
