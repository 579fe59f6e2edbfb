"""Blobs: bytes named by their sha256, one file each under `blobs/`, written once and durably."""

from __future__ import annotations

import hashlib
import re

from silva.errors import StoreError, UsageError
from silva.lake.place import Place


def name_of(data: bytes) -> str:
    """The blob's name: the sha256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def path_of(blob: str) -> str:
    """Where the blob's file stands.

    Raises:
        UsageError: it is no sha256 in hex.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", blob):
        raise UsageError(f"{blob[:80]!r} names no blob: give the sha256 of its bytes in hex")
    return f"blobs/{blob[:2]}/{blob}"


def put(place: Place, data: bytes) -> str:
    """Write the blob if it is not there; return its name once it is durable."""
    blob = name_of(data)
    if not place.exists(path_of(blob)):
        place.write(path_of(blob), data)
    return blob


def has(place: Place, blob: str) -> bool:
    """Whether the blob is there."""
    return place.exists(path_of(blob))


def get(place: Place, blob: str) -> bytes:
    """The blob's bytes.

    Raises:
        StoreError: there is no such blob, or its bytes are no longer those its name says.
    """
    data = place.read(path_of(blob))
    if data is None:
        raise StoreError(f"lake {place.where}: has no blob {blob}; was it written to another lake?")
    if name_of(data) != blob:
        raise StoreError(f"lake {place.where}: blob {blob} is damaged; remove it and write it again")
    return data
