"""One sandbox backend for each process, kind and snapshot folder, shared by the environments on one loop.

borrow ─▶ Backend (opened by the first) ─▶ give_back (closed by the last)
             └ must_keep_processes, fidelity_of: what its checkpoints hold
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from silva.envs.state import EXACT, FILES
from silva.errors import MissingError, StoreError
from silva.sandbox import open_backend
from silva.sandbox.capabilities import Fidelity
from silva.sandbox.protocol import Backend

_Key = tuple[int, str, str]
_open: dict[_Key, tuple[asyncio.Task[Backend], list[object]]] = {}


async def borrow(name: str, snapshots: Path | None, by: object) -> Backend:
    """The backend of that name whose checkpoints are kept in `snapshots` (None: nowhere for good); it stays open until
    `by` gives it back.

    Raises:
        UsageError: there is no such backend.
        MissingError: it cannot be had here.
        StoreError: the folder cannot be written.
    """
    key = _key(name, snapshots)
    if key not in _open and snapshots is not None:
        try:
            await asyncio.to_thread(snapshots.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"snapshots cannot be kept in {snapshots}: {error.strerror}") from error
    if key not in _open:  # another may have opened it meanwhile
        opening = asyncio.get_running_loop().create_task(open_backend(name, snapshots=snapshots))
        _open[key] = opening, []
    opening, users = _open[key]
    users.append(by)
    try:
        return await asyncio.shield(opening)
    except BaseException:
        _forget(key, by)
        raise


async def give_back(name: str, snapshots: Path | None, by: object) -> None:
    """Say that `by` needs it no longer."""
    key = _key(name, snapshots)
    if key in _open:
        opening, users = _open[key]
        if _forget(key, by) and not users:
            await (await opening).close()


async def must_keep_processes(gym: str, backend: Backend) -> None:
    """Raises MissingError: its checkpoints cannot hold what runs; the line says why."""
    reached = await asyncio.to_thread(backend.capabilities)
    if reached.fidelity != Fidelity.EXACT:
        why = "; ".join(reached.notes) or f"backend {backend.name} keeps files alone"
        raise MissingError(f"{gym}: processes=true: what runs cannot be kept here: {why}")


async def fidelity_of(backend: Backend, snapshot: str) -> str:
    """What coming back to a snapshot brings back: exact where it holds what ran."""
    store = getattr(backend, "snapshots", None)
    kept = None if store is None else await asyncio.to_thread(store.find, snapshot)
    return EXACT if kept is not None and kept.fidelity == Fidelity.EXACT else FILES


def _forget(key: _Key, by: object) -> bool:
    entry = _open.get(key)
    if entry is None or not any(user is by for user in entry[1]):
        return False
    entry[1][:] = [user for user in entry[1] if user is not by]
    if not entry[1]:
        del _open[key]
    return True


def _key(name: str, snapshots: Path | None) -> _Key:
    return id(asyncio.get_running_loop()), name, "" if snapshots is None else os.fspath(snapshots)
