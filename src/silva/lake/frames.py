"""A frame: one record in a journal segment, `length | crc32 | payload`, little-endian, after an eight-byte magic.

    record ── tree.encode ──▶ payload ── frame ──▶ bytes in a segment ── scan ──▶ payloads, and where damage lies

The highest bit of a length says that the frame begins a batch (its checksum is inverted then, so that no flipped bit
says so): all that stands before it was on disk when it was written. A segment has zeros where nothing was written yet.
By these two, a last batch that a loss of power tore, in whatever order the disk took its parts, is told from damage.

The payload of a record of `silva.tree` is what `silva.tree.encode` wrote (a msgpack array of two); the payload of a
record of the lake's own (see `entry`) is a msgpack array of three, so that the first byte tells them apart.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from silva.errors import StoreError
from silva.lake.entry import Arrival, BlobEntry, Own
from silva.tree import AnyRecord, SchemaError, decode, encode

MAGIC = b"SILVAJ1\n"
HEADER = struct.Struct("<II")
LARGEST = 1 << 30
"""No payload is larger; a length above it is damage."""
_BEGINS = 1 << 31
_LENGTH = _BEGINS - 1
_INVERTED = 0xFFFFFFFF

_REST = 16
"""Zero bytes at the end of a frame that are taken for unwritten: more than records end with."""

SECTOR = 512
"""Bytes that a disk writes as one, or more."""

_LOCKED = 5000

Entry: TypeAlias = AnyRecord | Own

_MARK = re.compile(rb"[\x92\x93]")
_OWN: dict[type, str] = {BlobEntry: "blob", Arrival: "arrival"}
_encode_own = msgspec.msgpack.Encoder().encode
_decode_kind = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw]).decode
_DECODERS = {name: msgspec.msgpack.Decoder(kind).decode for kind, name in _OWN.items()}


class Damage(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` of a segment hold no whole frame. `tail`: nothing whole follows, so a torn last write.
    `hole`: a sector there was never written."""

    start: int
    end: int
    tail: bool
    hole: bool = False


class Scan(msgspec.Struct, frozen=True):
    """What a segment holds: the payloads in order, the offset after the last whole frame, the damage, and where the
    last batch begins whose beginning is whole (-1: none says so)."""

    payloads: list[bytes]
    end: int
    damage: tuple[Damage, ...]
    batch: int = -1

    @property
    def torn(self) -> bool:
        """Whether all damage is that of a last batch which never was on disk as a whole, so that nobody was told it
        is, if this segment was not sealed."""
        last = 0 <= self.batch < self.damage[0].start if self.damage else False
        return all(damage.tail or (last and damage.hole) for damage in self.damage)


def frames(entries: Sequence[Entry]) -> bytes:
    """The entries as consecutive frames.

    Raises:
        StoreError: a record cannot be written (text that is no Unicode, an integer beyond 64 bits, a foreign object).
    """
    return b"".join(parts(map(encoded, entries)))


def encoded(entry: Entry) -> bytes:
    """The payload of an entry.

    Raises:
        StoreError: as `frames`.
    """
    try:
        own = _OWN.get(type(entry))
        return encode(entry) if own is None else _encode_own((1, own, entry))  # pyright: ignore[reportArgumentType]
    except (msgspec.EncodeError, TypeError, UnicodeError, OverflowError, ValueError) as error:
        kind, name = type(entry).__name__.lower(), getattr(entry, "id", "")
        raise StoreError(f"{kind} {name} cannot be written: {error}".replace("\n", " ")) from error


def frame(payload: bytes) -> bytes:
    """One payload as a frame."""
    return b"".join(parts((payload,)))


def parts(payloads: Iterable[bytes]) -> list[bytes]:
    """Payloads as frames in parts that follow each other, so that none of them is copied."""
    found: list[bytes] = []
    for payload in payloads:
        found.append(HEADER.pack(len(payload), _checksum(payload)))
        found.append(payload)
    return found


def as_batch(data: bytes) -> bytes:
    """Whole frames, or a part that begins with a header: the first now says that it begins a batch."""
    length, checksum = HEADER.unpack_from(data)
    return HEADER.pack(length | _BEGINS, checksum ^ _INVERTED) + data[HEADER.size :]


def _checksum(payload: bytes) -> int:
    """CRC-32, in pieces: over 5 kB at once zlib lets other threads in, and getting back takes milliseconds."""
    if len(payload) <= _LOCKED:
        return zlib.crc32(payload)
    view, checksum = memoryview(payload), 0
    for start in range(0, len(payload), _LOCKED):
        checksum = zlib.crc32(view[start : start + _LOCKED], checksum)
    return checksum


def entry(payload: bytes) -> Entry:
    """The record in a payload.

    Raises:
        StoreError: written by a newer Silva, or not of the shape its schema promises.
    """
    try:
        if payload[:1] == b"\x93":
            _, kind, raw = _decode_kind(payload)
            if kind not in _DECODERS:
                raise StoreError(f"journal: a record of the kind {kind!r} is newer than this Silva; upgrade silva")
            return _DECODERS[kind](raw)
        return decode(payload)
    except (SchemaError, msgspec.DecodeError) as error:
        raise StoreError(f"journal: {error}".replace("\n", " ")) from error


def scan(data: bytes | memoryview, start: int = 0) -> Scan:
    """Read every whole frame of `data` (a segment's bytes without its magic, or its continuation) from `start`."""
    view = memoryview(data)
    payloads: list[bytes] = []
    damage: list[Damage] = []
    position, batch = start, -1
    while True:
        position, begun = _run(view, position, payloads)
        batch = max(batch, begun)
        if position == len(view):
            return Scan(payloads, position, tuple(damage), batch)
        following = _resume(view, position + 1)
        if following is None:
            damage.append(Damage(position, len(view), True))
            return Scan(payloads, position, tuple(damage), batch)
        damage.append(Damage(position, following, False, _hole(view, position, following)))
        position = following


def whole(data: bytes | memoryview, start: int = 0) -> tuple[list[bytes], int]:
    """Read whole frames up to the first that is not; return them and the offset after the last.

    For a segment still being written, where an unfinished last frame is no damage.
    """
    payloads: list[bytes] = []
    return payloads, _run(memoryview(data), start, payloads)[0]


def unfinished(data: bytes, position: int) -> bool:
    """Whether the last frame, at `position`, was still being written, into room that had been laid out for it: then its
    batch was acknowledged to nobody. False where its bytes may all have been there once, and where nothing tells.

    Room that is laid out is zeros, so what was not written of a frame is zeros up to its stated end. A file that was
    shortened ends before that; a record that was damaged has its last bytes; a damaged length is told by the checksum
    of what is there.
    """
    if position + HEADER.size > len(data):
        return False
    stated, checksum = HEADER.unpack_from(data, position)
    first, length = position + HEADER.size, stated & _LENGTH
    written = len(data.rstrip(b"\0"))
    if written <= first:  # nothing of the payload, which never begins with zeros
        return len(data) - first >= _REST
    if first + length > len(data) or first + length - written < _REST:
        return False
    wanted = checksum ^ _INVERTED if stated != length else checksum
    return all(zlib.crc32(data[first : written + more]) != wanted for more in range(_REST))


def _hole(view: memoryview, start: int, end: int) -> bool:
    """Whether a sector from `start` on was never written. The first may hold the end of a whole frame: then what
    follows in it is zeros, and enough of them to be no length."""
    first = start - start % SECTOR + SECTOR
    if first - start >= 4 and first <= end and not any(view[start:first]):
        return True
    return any(not any(view[sector : sector + SECTOR]) for sector in range(first, end - SECTOR + 1, SECTOR))


def _run(view: memoryview, position: int, payloads: list[bytes]) -> tuple[int, int]:
    size, batch = len(view), -1
    unpack, crc32, head = HEADER.unpack_from, zlib.crc32, HEADER.size
    while position + head <= size:
        stated, checksum = unpack(view, position)
        length = stated & _LENGTH
        after = position + head + length
        if length == 0 or after > size:
            return position, batch
        payload = view[position + head : after]
        begins = stated != length
        if crc32(payload) != (checksum ^ _INVERTED if begins else checksum):
            return position, batch
        if begins:
            batch = position
        payloads.append(bytes(payload))
        position = after
    return position, batch


def _resume(view: memoryview, position: int) -> int | None:
    # A header is two arbitrary numbers and cannot be searched for; a payload opens with one of two bytes.
    raw = view.tobytes()
    for mark in _MARK.finditer(raw, position + HEADER.size):
        payload = mark.start()
        stated, checksum = HEADER.unpack_from(raw, payload - HEADER.size)
        length = stated & _LENGTH
        if stated != length:
            checksum ^= _INVERTED
        if 0 < length <= min(LARGEST, len(raw) - payload) and zlib.crc32(raw[payload : payload + length]) == checksum:
            return payload - HEADER.size
    return None
