"""A frame: one record in a journal segment, `length | crc32 | payload`, little-endian, after an eight-byte magic.

    record ── tree.encode ──▶ payload ── frame ──▶ bytes in a segment ── scan ──▶ payloads, and where damage lies

The payload of a record of `silva.tree` is what `silva.tree.encode` wrote (a msgpack array of two); the payload of a
blob's entry is a msgpack array of three, so that the first byte tells them apart.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from silva.errors import StoreError
from silva.lake.entry import BlobEntry
from silva.tree import AnyRecord, SchemaError, decode, encode

MAGIC = b"SILVAJ1\n"
HEADER = struct.Struct("<II")
LARGEST = 1 << 30
"""No payload is larger; a length above it is damage."""

_LOCKED = 5000

Entry: TypeAlias = AnyRecord | BlobEntry

_MARK = re.compile(rb"[\x92\x93]")
_encode_blob = msgspec.msgpack.Encoder().encode
_decode_blob = msgspec.msgpack.Decoder(tuple[int, str, BlobEntry]).decode


class Damage(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` of a segment hold no whole frame. `tail`: nothing whole follows, so a torn last write."""

    start: int
    end: int
    tail: bool


class Scan(msgspec.Struct, frozen=True):
    """What a segment holds: the payloads in order, the offset after the last whole frame, and the damage."""

    payloads: list[bytes]
    end: int
    damage: tuple[Damage, ...]


def frames(entries: Sequence[Entry]) -> bytes:
    """The entries as consecutive frames.

    Raises:
        StoreError: a record cannot be written (text that is no Unicode, an integer beyond 64 bits, a foreign object).
    """
    parts: list[bytes] = []
    for entry in entries:
        try:
            payload = _encode_blob((1, "blob", entry)) if type(entry) is BlobEntry else encode(entry)  # pyright: ignore[reportArgumentType]
        except (msgspec.EncodeError, TypeError, UnicodeError, OverflowError, ValueError) as error:
            kind, name = type(entry).__name__.lower(), getattr(entry, "id", "")
            raise StoreError(f"{kind} {name} cannot be written: {error}".replace("\n", " ")) from error
        parts.append(HEADER.pack(len(payload), _checksum(payload)))
        parts.append(payload)
    return b"".join(parts)


def frame(payload: bytes) -> bytes:
    """One payload as a frame."""
    return HEADER.pack(len(payload), _checksum(payload)) + payload


def _checksum(payload: bytes) -> int:
    """CRC-32, in pieces: over 5 kB at once zlib lets other threads in, and getting back takes milliseconds."""
    if len(payload) <= _LOCKED:
        return zlib.crc32(payload)
    view, checksum = memoryview(payload), 0
    for start in range(0, len(payload), _LOCKED):
        checksum = zlib.crc32(view[start : start + _LOCKED], checksum)
    return checksum


def entry(payload: bytes) -> Entry:
    """The record or blob entry in a payload.

    Raises:
        StoreError: written by a newer Silva, or not of the shape its schema promises.
    """
    try:
        if payload[:1] == b"\x93":
            return _decode_blob(payload)[2]
        return decode(payload)
    except (SchemaError, msgspec.DecodeError) as error:
        raise StoreError(f"journal: {error}".replace("\n", " ")) from error


def scan(data: bytes | memoryview, start: int = 0) -> Scan:
    """Read every whole frame of `data` (a segment's bytes without its magic, or its continuation) from `start`."""
    view = memoryview(data)
    payloads: list[bytes] = []
    damage: list[Damage] = []
    position = start
    while True:
        position = _run(view, position, payloads)
        if position == len(view):
            return Scan(payloads, position, tuple(damage))
        following = _resume(view, position + 1)
        if following is None:
            damage.append(Damage(position, len(view), True))
            return Scan(payloads, position, tuple(damage))
        damage.append(Damage(position, following, False))
        position = following


def whole(data: bytes | memoryview, start: int = 0) -> tuple[list[bytes], int]:
    """Read whole frames up to the first that is not; return them and the offset after the last.

    For a segment still being written, where an unfinished last frame is no damage.
    """
    payloads: list[bytes] = []
    return payloads, _run(memoryview(data), start, payloads)


def _run(view: memoryview, position: int, payloads: list[bytes]) -> int:
    size = len(view)
    unpack, crc32, head = HEADER.unpack_from, zlib.crc32, HEADER.size
    while position + head <= size:
        length, checksum = unpack(view, position)
        after = position + head + length
        if length == 0 or after > size:
            return position
        payload = view[position + head : after]
        if crc32(payload) != checksum:
            return position
        payloads.append(bytes(payload))
        position = after
    return position


def _resume(view: memoryview, position: int) -> int | None:
    # A header is two arbitrary numbers and cannot be searched for; a payload opens with one of two bytes.
    raw = view.tobytes()
    for mark in _MARK.finditer(raw, position + HEADER.size):
        payload = mark.start()
        length, checksum = HEADER.unpack_from(raw, payload - HEADER.size)
        if 0 < length <= min(LARGEST, len(raw) - payload) and zlib.crc32(raw[payload : payload + length]) == checksum:
            return payload - HEADER.size
    return None
