"""What a server takes of strangers before it knows who they are: connections, heads of requests, time to send one, and
what bodies that come in pieces may take in memory together.

    connection ─▶ within `connections`? ─▶ head within `head`? ─▶ all of it in time? ─▶ body within the `Room`? ─▶ read

A request that comes in one piece costs nothing: who is slow is looked after all together, by one timer of the server.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Protocol

from silva.tree import Record

LEAST_RATE = 1024
"""Bytes a second that a request must come with on the whole: who sends one byte a minute makes progress, too."""

SPARE_FILES = 256
"""Open files that a server needs besides its connections: the lake, the loop, the listening socket."""


class Bounds(Record, frozen=True, kw_only=True):
    """The bounds of a server. An application says its own by an attribute `bounds`.

    Attributes:
        connections: how many there may be at once; None: as many as can be had.
        head: bytes of a request's URL and headers.
        seconds: how long a request may make no progress, and a connection say nothing at its beginning.
    """

    connections: int | None = None
    head: int = 64 << 10
    seconds: float = 60.0


class Room:
    """Memory for bodies in pieces, shared by all who send some. `most`, `used`: bytes."""

    __slots__ = ("most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def take(self, size: int) -> bool:
        """Set bytes aside; False where there is not so much."""
        if self.used + size > self.most:
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        """They are free again."""
        self.used -= size


class Sender(Protocol):
    """A connection on which a request is awaited or has come in part."""

    def overdue(self, now: float, seconds: float) -> bool:
        """Whether it has taken too long."""
        ...

    def time_out(self) -> None:
        """End it."""
        ...


class Awaited:
    """Connections on which a request is awaited or has come in part, looked at by one timer. `hold` and `let_go` are
    called for them again and again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._senders: set[Sender] = set()
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, sender: Sender, loop: asyncio.AbstractEventLoop) -> None:
        """Look after a connection from now on."""
        self._senders.add(sender)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds / 8, self._look, loop)

    def let_go(self, sender: Sender) -> None:
        """Its request has come, or it is gone."""
        self._senders.discard(sender)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._seconds / 8, self._look, loop) if self._senders else None
        now = loop.time()
        for sender in [each for each in self._senders if each.overdue(now, self._seconds)]:
            self._senders.discard(sender)
            sender.time_out()


def open_files(connections: int) -> str:
    """Raise this process's limit on open files as far as it may be raised. Returns a line to tell where that is less
    than so many connections need, each with one of its own to a backend; "" where it is not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * connections + SPARE_FILES
    endless = hard == resource.RLIM_INFINITY
    if soft != resource.RLIM_INFINITY and soft < (wanted := needed if endless else hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if endless or hard >= needed:
        return ""
    return (
        f"this process may open {hard} files, and limits.connections={connections} needs {needed}: "
        "raise the limit (ulimit -Hn), or lower limits.connections"
    )
