"""Keeping states and finding them again.

environment ─▶ Captured ─▶ packed, sealed ─▶ blob (durable) ─▶ Snapshot … Snapshot ─▶ blob ─▶ whole? ours? ─▶ Captured
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from time import perf_counter
from typing import Any, Protocol

from silva.envs import EnvError
from silva.envs.wire import Captured
from silva.errors import SilvaError
from silva.rollout.snapshots.seal import made_here, sealed
from silva.rollout.snapshots.snapshot import Snapshot

MEDIA_TYPE = "application/x-silva-state"
_QUICK = 1  # zlib's level: states shrink to a third, and a deeper one takes ten times as long


class Blobs(Protocol):
    """The part of the lake that bytes are written to."""

    async def put_blob(self, data: bytes, media_type: str = ...) -> str:
        """Store bytes; return their sha256."""
        ...


class ReadsBlobs(Protocol):
    """The part of the lake that bytes are read from."""

    def get_blob(self, hash: str) -> bytes:
        """The bytes of that name."""
        ...


async def keep(env: Any, blobs: Blobs) -> Snapshot:
    """Keep the present state of a live environment; durable when this returns.

    Raises:
        EnvError: `env.snapshot` where it cannot be kept, or as any call of the environment.
        StoreError: it cannot be written.
    """
    began = perf_counter()
    captured: Captured = await env.snapshot()
    facts: dict[str, Any] = {"kind": captured.kind, "fidelity": captured.fidelity, "versions": captured.versions}
    if captured.kind == "own":
        digest = hashlib.sha256(captured.id.encode()).hexdigest()
        return Snapshot(id=captured.id, digest=digest, seconds=perf_counter() - began, **facts)
    packed, seal = await asyncio.to_thread(_packed, captured.data)
    blob = await blobs.put_blob(packed, MEDIA_TYPE)
    seconds = perf_counter() - began
    return Snapshot(id=blob, digest=blob, size=len(packed), seconds=seconds, seal=seal, **facts)


async def find(snapshot: Snapshot, blobs: ReadsBlobs) -> Captured:
    """The state that a record names, ready to be taken up.

    Raises:
        EnvError: `env.snapshot`: it is gone, damaged, or was not made on this machine.
    """
    captured = Captured(snapshot.kind, snapshot.fidelity, id=snapshot.id, versions=snapshot.versions)
    if snapshot.kind == "own":
        return captured
    captured.data = await asyncio.to_thread(_unpacked, snapshot, blobs)
    return captured


def _packed(data: bytes) -> tuple[bytes, str]:
    packed = zlib.compress(data, _QUICK)
    return packed, sealed(packed)


def _unpacked(snapshot: Snapshot, blobs: ReadsBlobs) -> bytes:
    name = snapshot.id[:12]
    try:
        packed = blobs.get_blob(snapshot.id)  # checks its digest
    except SilvaError as error:
        raise EnvError("env.snapshot", f"snapshot {name}: {error}") from error
    if not made_here(packed, snapshot.seal):
        raise EnvError("env.snapshot", f"snapshot {name}: was not made on this machine, so it is not read: replay")
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise EnvError("env.snapshot", f"snapshot {name}: is damaged ({error}): replay") from error
