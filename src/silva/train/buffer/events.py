"""What the journal of a job keeps: everything that changed its controller, in order.

event ─ write ─▶ msgpack [1, {type, …}] ─▶ frame in a segment ─ read ─▶ event ─▶ Controller.apply
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from silva.errors import StoreError
from silva.train.buffer.group import Header

SCHEMA = 1


class Started(msgspec.Struct, frozen=True, tag="started"):
    """These groups are being grown."""

    ids: tuple[str, ...]


class Abandoned(msgspec.Struct, frozen=True, tag="abandoned"):
    """These will not come."""

    ids: tuple[str, ...]


class Entered(msgspec.Struct, frozen=True, tag="entered"):
    """A group came in; its samples are in its file."""

    header: Header


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """These got the next numbers of the hand-out sequence."""

    ids: tuple[str, ...]


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """All up to `cursor` was trained; the policy is at `version`; nothing up to `checkpointed` is handed out again."""

    cursor: int
    version: int
    checkpointed: int


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    """The trainer went back to a checkpoint."""

    cursor: int
    version: int


Event: TypeAlias = Started | Abandoned | Entered | Delivered | Committed | Rewound

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, Event]).decode


def write(event: Event) -> bytes:
    """The event as a payload. It opens as the lake's records do, so that `silva.lake.frames.scan` tells a damaged
    middle from a torn end."""
    return _encode((SCHEMA, event))


def read(payload: bytes) -> Event:
    """The event in a payload.

    Raises:
        StoreError: it was written by a newer Silva, or is no event.
    """
    try:
        return _decode(payload)[1]
    except msgspec.DecodeError as error:
        raise StoreError(
            f"buffer: an entry of its journal cannot be read ({error}); was it written by a newer Silva?"
        ) from error
