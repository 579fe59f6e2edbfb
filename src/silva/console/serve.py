"""A console as a server: a lake, a token, a loopback address."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from silva.console.admission import Admission
from silva.console.app import ConsoleApp
from silva.console.loops import Loops
from silva.console.orders import Orders
from silva.console.rating import Ratings
from silva.console.reading import Reading
from silva.console.trail import Trail
from silva.console.users import User, Users, hashed
from silva.envs.home import home
from silva.errors import UsageError
from silva.models.serving.admin import write_secret
from silva.models.serving.server import run_server, server_config, url_of


def console_app(
    location: str,
    users: Users,
    port: int,
    *,
    trail: Path | None = None,
    datasets: Path,
    loops: Sequence[Path] = (),
) -> ConsoleApp:
    """The application for a lake.

    Args:
        location: of the lake.
        users: who may come in.
        port: where it will listen; consoles beside each other on one machine have cookies of their own.
        trail: the file of who did what; under `SILVA_HOME` if None.
        datasets: the folder of data sets that are saved.
        loops: folders of loops, or that hold some; that around the lake is looked at without being named.

    Raises:
        StoreError: it is no lake.
    """
    reading = Reading(location)
    kept = Trail(trail if trail is not None else trail_of(location))
    known = Loops(reading, loops)
    ratings = Ratings(reading, known)
    admission = Admission(reading.lake)
    orders = Orders(reading, kept, datasets, ratings, admission)
    return ConsoleApp(reading, orders, users, kept, f"silva_console_{port}", known, ratings, admission)


def trail_of(location: str) -> Path:
    """Where the trail of a lake's consoles lies."""
    where = location if "://" in location else str(Path(location).expanduser().resolve())
    return home() / "console" / f"{hashlib.sha256(where.encode()).hexdigest()[:16]}.jsonl"


def one_user(kept: Path | None = None) -> tuple[Users, str]:
    """A token for whoever starts the console: that of the file `kept`, or drawn now and written there.

    Raises:
        UsageError: the file cannot be read or written, others can read it, or it holds no token.
    """
    token = _kept_token(kept) if kept is not None else secrets.token_urlsafe(24)
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "somebody"
    return Users((User(name=name, role="admin", hash=hashed(token)),)), token


def _kept_token(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            mode, token = os.fstat(opened.fileno()).st_mode, opened.read(1024).strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(24)
        write_secret(file, token)
        return token
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {file} cannot be read: {error}") from error
    if mode & 0o077:
        raise UsageError(f"--token-file {file} can be read by others: chmod 600 it, or name another file")
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,256}", token):
        raise UsageError(f"--token-file {file} holds no token (16 or more letters, digits, - and _): remove it")
    return token


def serve_console(
    location: str,
    listening: socket.socket,
    users: Users,
    announce: Callable[[str], None],
    *,
    trail: Path | None = None,
    datasets: Path,
    loops: Sequence[Path] = (),
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        location: of the lake.
        listening: from `silva.models.serving.server.bind`.
        users: who may come in.
        announce: told the address once it answers.
        trail: as `console_app`.
        datasets: as `console_app`.
        loops: as `console_app`.

    Raises:
        StoreError: the lake cannot be read.
    """
    address = url_of(listening).removesuffix("/v1")
    app = console_app(location, users, listening.getsockname()[1], trail=trail, datasets=datasets, loops=loops)
    server = Server(app, listening, lambda: announce(address))
    try:
        run_server(server, listening)
    finally:
        app.close()
    if app.failure is not None:
        raise app.failure


class Server(uvicorn.Server):
    """uvicorn's server, which lets open streams end before it waits for answers under way."""

    def __init__(self, app: ConsoleApp, listening: socket.socket, started: Callable[[], None] = lambda: None) -> None:
        super().__init__(server_config(app, listening))
        self._app, self._told = app, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        if self.started:
            self._told()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._app.end_streams()
        await super().shutdown(sockets)
