"""Frames: four bytes of length, JSON, and where it names `blob`, so many bytes after it."""

from __future__ import annotations

import json
import socket
from typing import Any

MOST = 64 << 20
"""Bytes of a frame; a longer one ends the connection."""


def send(channel: socket.socket, message: dict[str, Any], blob: bytes = b"") -> None:
    """Send one frame. Raises OSError."""
    if blob:
        message = {**message, "blob": len(blob)}
    body = json.dumps(message).encode()
    channel.sendall(len(body).to_bytes(4, "big") + body + blob)


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """The next frame; None where the other side has gone. Raises OSError, ValueError."""
    head = _exactly(channel, 4)
    if head is None:
        return None
    length = int.from_bytes(head, "big")
    if length > MOST:
        raise ValueError("a frame is too long")
    body = _exactly(channel, length)
    return None if body is None else json.loads(body)


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        read = channel.recv(min(1 << 16, count - len(data)))
        if not read:
            return None
        data += read
    return bytes(data)
