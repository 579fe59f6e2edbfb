"""How much a server may say: what is larger is not read on, so that no reply fills the memory or holds up others."""

from __future__ import annotations

import errno
from typing import Protocol

MOST_REPLY = 64 << 20
"""Bytes of a reply in one piece."""

MOST_EVENT = 8 << 20
"""Bytes of one event of a stream."""

MOST_STREAM = 256 << 20
"""Bytes of a whole stream."""

MOST_HEAD = 1 << 18
"""Bytes of an answer before its headers have ended."""


class TooLargeError(OSError):
    """A server said more than is read."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(errno.EMSGSIZE, f"{what} is larger than {most >> 10} kB")


class Readable(Protocol):
    """Bytes that come by and by."""

    async def readany(self) -> bytes:
        """What has come since, at least a byte; b"" at the end."""
        ...


async def whole(content: Readable) -> bytes:
    """All of a reply.

    Raises:
        TooLargeError: it is larger than `MOST_REPLY`.
        aiohttp.ClientError, OSError: the connection broke.
    """
    chunks: list[bytes] = []
    size = 0
    while chunk := await content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_REPLY:
            raise TooLargeError("the reply", MOST_REPLY)
    return b"".join(chunks)
