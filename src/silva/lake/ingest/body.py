"""The body of a request: read within bounds, unpacked within bounds."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from silva.lake.ingest.limits import Limits, Refused

_DRAINED = 8
"""So many times the largest body is read of one that is too large."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def read_body(receive: Receive, headers: dict[bytes, bytes], limits: Limits) -> bytes:
    """The whole body, unpacked.

    Raises:
        Refused: it is larger than is taken, breaks off, does not come in time, or cannot be unpacked.
    """
    packed = headers.get(b"content-encoding", b"identity").strip().lower()
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the request broke off")
                chunk = message.get("body", b"")
                size += len(chunk)
                if size <= limits.body:
                    chunks.append(chunk)
                elif chunks:
                    chunks.clear()
                # Who sends too much reads the answer only after the last byte, so some of it is taken and thrown away.
                if not message.get("more_body") or size > _DRAINED * limits.body:
                    break
    except TimeoutError as error:
        raise Refused(408, f"the body did not come within {limits.seconds:g} seconds") from error
    if size > limits.body:
        raise Refused(413, f"the request is larger than {limits.body} bytes; send smaller batches")
    if packed not in (b"gzip", b"deflate", b"identity", b""):
        raise Refused(415, f"content-encoding {packed.decode('latin-1')[:40]} is not known; use gzip or none")
    body = b"".join(chunks)
    return unpacked(body, limits.unpacked) if packed in (b"gzip", b"deflate") else body


def unpacked(body: bytes, most: int) -> bytes:
    """A body packed by gzip or deflate.

    Raises:
        Refused: it is neither, is cut off, or holds more than `most` bytes.
    """
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: either header
    try:
        found = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refused(400, f"the body cannot be unpacked ({error})") from error
    if len(found) > most:
        raise Refused(413, f"the request unpacks to more than {most} bytes; send smaller batches")
    if not unpacker.eof:
        raise Refused(400, "the packed body is cut off")
    return found
