"""A door: a port of this machine's loopback that a sandbox finds on its own, and no other.

    program inside ─▶ 127.0.0.1:PORT of the sandbox (a socket made inside, served here) ─▶ 127.0.0.1:PORT of the machine

What is said through it is passed on as it is, both ways. Connections are bounded (`silva.sandbox.room`); one that
nothing goes through is not closed for that: a model may think for long.
"""

from __future__ import annotations

import asyncio
import socket

from silva.sandbox.listener import Listener, pump
from silva.sandbox.room import Guest, Room


class Door(Listener):
    """One door. Made by `Door.open`."""

    def __init__(self, port: int, room: Room) -> None:
        super().__init__(room)
        self._port = port

    @classmethod
    async def open(cls, listening: socket.socket, port: int, room: Room | None = None) -> Door:
        """Lead from a socket that listens already to a port of this machine's loopback. `room`: where connections are
        counted; one of its own when left out."""
        return await cls(port, room or Room())._begin(listening)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, guest: Guest) -> None:
        theirs, to_them = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            # Either side may stop saying something and go on listening.
            await asyncio.gather(pump(reader, to_them, guest), pump(theirs, writer, guest))
        finally:
            to_them.close()
