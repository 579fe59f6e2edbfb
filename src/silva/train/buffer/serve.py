"""A buffer as a server."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path

from silva.models.serving.server import serve_forever, url_of
from silva.train.buffer.app import BufferApp
from silva.train.buffer.client import VARIABLES
from silva.train.buffer.config import BufferConfig
from silva.train.buffer.jobs import Jobs


def buffer_app(config: BufferConfig, token: str, started: Callable[[Jobs], None] = lambda jobs: None) -> BufferApp:
    """The application of a configuration; it opens the folder when its server starts."""

    def jobs() -> Jobs:
        return Jobs(Path(config.folder), most=config.limits.jobs, answer_bytes=int(config.limits.answer_mb * (1 << 20)))

    return BufferApp(jobs, token, config.limits, config.jobs, started)


def serve_buffer(config: BufferConfig, listening: socket.socket, token: str, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        config: what to serve.
        listening: from `silva.models.serving.server.bind`.
        token: the admin token.
        say: told the url once it answers, then the variables by which clients of each configured job find it.

    Raises:
        StoreError: the folder is held by another process, cannot be used, or is damaged.
        Refused: a job was opened by other terms before.
    """
    where = url_of(listening).removesuffix("/v1")

    def started(jobs: Jobs) -> None:
        say(where)
        for name in config.jobs:
            for variable, value in zip(VARIABLES, (where, name, jobs.token(name)), strict=True):
                say(f"export {variable}={value}")

    app = buffer_app(config, token, started)
    # uvicorn raises the signal that stopped it again, which would end us before the folder is let go
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serve_forever(app, listening, lambda _: None)
    if app.failure is not None:
        raise app.failure
