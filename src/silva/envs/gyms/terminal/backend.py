"""One sandbox backend for each process, kind and snapshot folder, shared by the environments on one loop.

borrow ─▶ Backend (opened by the first) ─▶ give_back (closed by the last)
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from silva.errors import StoreError
from silva.sandbox import open_backend
from silva.sandbox.protocol import Backend

_Key = tuple[int, str, str]
_open: dict[_Key, tuple[asyncio.Task[Backend], list[object]]] = {}


async def borrow(name: str, snapshots: Path, by: object) -> Backend:
    """The backend of that name whose checkpoints are kept in `snapshots`; it stays open until `by` gives it back.

    Raises:
        UsageError: there is no such backend.
        MissingError: it cannot be had here.
        StoreError: the folder cannot be written.
    """
    key = _key(name, snapshots)
    if key not in _open:
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


async def give_back(name: str, snapshots: Path, by: object) -> None:
    """Say that `by` needs it no longer."""
    key = _key(name, snapshots)
    if key in _open:
        opening, users = _open[key]
        if _forget(key, by) and not users:
            await (await opening).close()


def _forget(key: _Key, by: object) -> bool:
    entry = _open.get(key)
    if entry is None or not any(user is by for user in entry[1]):
        return False
    entry[1][:] = [user for user in entry[1] if user is not by]
    if not entry[1]:
        del _open[key]
    return True


def _key(name: str, snapshots: Path) -> _Key:
    return id(asyncio.get_running_loop()), name, os.fspath(snapshots)
