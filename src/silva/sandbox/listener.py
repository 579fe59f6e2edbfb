"""Connections that a program inside makes to a socket which is served from here: let in by a room, ended with it.

program inside ─▶ the socket ─▶ Room.enter ─▶ a task that answers ─▶ pump, both ways
                                    └ no: turned away
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Self

from silva.sandbox.room import Guest, Room

CHUNK = 64 << 10


class Listener:
    """Serves one socket. What comes of a connection its subclasses say, in `_answer`."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._guests = room.guests()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def _begin(self, listening: socket.socket) -> Self:
        """Serve on a socket that listens already."""
        listening.setblocking(False)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=CHUNK)
        return self

    async def close(self) -> None:
        """Let nobody in any more, and end what is under way."""
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._room.leave(self._guests)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, guest: Guest) -> None:
        raise NotImplementedError

    def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        """Say, where there are words for it, that there are too many."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        guest = Guest(task)
        try:
            if self._room.enter(self._guests, guest):
                await self._answer(reader, writer, guest)
            else:
                self._turn_away(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            return  # either side went away
        except asyncio.CancelledError:
            return  # the sandbox is gone, or its room is needed
        finally:
            self._serving.discard(task)
            self._guests.inside.discard(guest)
            writer.close()


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, guest: Guest) -> None:
    """Pass on what one side says, until it has said all."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read(CHUNK):
            guest.moved()
            sink.write(data)
            await sink.drain()
            guest.moved()
        if sink.can_write_eof():
            sink.write_eof()
