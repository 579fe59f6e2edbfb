"""Runs an ASGI application on uvicorn: in this process until told to stop, or in a thread beside the caller."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import uvicorn

from silva.errors import UsageError
from silva.hosts import Hosts, is_loopback
from silva.models.serving.bounds import Awaited, Bounds
from silva.models.serving.named import Named
from silva.models.serving.protocol import Protocol

STOP_SECONDS = 3
"""How long a stopping server waits for answers under way."""


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


class Listening(socket.socket):
    """A listening socket, and the `host` it was to listen on."""

    host = ""


def bind(host: str, port: int) -> Listening:
    """A listening socket; port 0 takes a free one.

    Raises:
        UsageError: the address cannot be had.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = Listening(family, socket.SOCK_STREAM)
        found.host = host
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


def server_config(application: Any, listening: socket.socket) -> uvicorn.Config:
    """How every server of Silva's runs: under its own names alone, within the application's own `bounds` where it has
    some."""
    bounds: Bounds = getattr(application, "bounds", Bounds())
    bound = str(listening.getsockname()[0])
    return uvicorn.Config(
        Named(application, Hosts(getattr(listening, "host", "") or bound, bound)),
        http=partial(Protocol, bounds=bounds, awaited=Awaited(bounds.seconds)),  # pyright: ignore[reportArgumentType]
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
    server = uvicorn.Server(server_config(application, listening))

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
        self._server = uvicorn.Server(server_config(application, self._listening))
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
