"""A door: a port of this machine's loopback that a sandbox finds on its own, and no other.

    program inside ─▶ 127.0.0.1:PORT of the sandbox (a socket made inside, served here) ─▶ 127.0.0.1:PORT of the machine

What is said through it is passed on as it is, both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Self

_CHUNK = 64 << 10


class Door:
    """One door. Made by `Door.open`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, listening: socket.socket, port: int) -> Self:
        """Lead from a socket that listens already to a port of this machine's loopback."""
        listening.setblocking(False)
        door = cls(port)
        door._server = await asyncio.start_server(door._serve, sock=listening)
        return door

    async def close(self) -> None:
        """Let nobody through any more, and end what is under way."""
        if self._server is not None:
            self._server.close()
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            with contextlib.suppress(OSError):  # nobody answers there: the program sees its connection closed
                theirs, to_them = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    # Either side may stop saying something and go on listening.
                    await asyncio.gather(_pump(reader, to_them), _pump(theirs, writer))
                finally:
                    to_them.close()
        finally:
            self._passing.discard(task)
            writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
