"""The exact ids a model has seen along a walk, in little room, so that a turn does not read all turns before it again.

    turn n: seen (read from its nodes, once) ─▶ turn n + 1: moved on and extended by its own ids ─▶ …

Only the end of a walk has them: whoever branches off further up reads the nodes.
"""

from __future__ import annotations

import msgspec

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, ...]).decode


class SeenIds:
    """Token ids as MessagePack writes them, three bytes or less for most: a tenth of what Python's numbers take."""

    __slots__ = ("_written", "count")

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.count = 0
        self._written = b""
        self.extend(ids)

    def extend(self, ids: tuple[int, ...]) -> None:
        """Take ids in at the end."""
        written = _encode(ids)
        self._written += written[len(_head(len(ids))) :]
        self.count += len(ids)

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them."""
        return _decode(_head(self.count) + self._written)

    @property
    def size(self) -> int:
        """Bytes that they take."""
        return len(self._written)


def _head(count: int) -> bytes:
    if count < 1 << 4:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")
