"""Making files survive a loss of power, and saying in one line why the disk refused.

Lance writes its files without `fsync`; the compactor calls `settle` on a table after every commit and only then lets
go of the journal segment the commit came from.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from silva.errors import StoreError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}


def refusal(where: str, error: OSError) -> StoreError:
    """The one line for what the operating system refused at `where`."""
    if error.errno in _FULL:
        return StoreError(
            f"lake {where}: the disk is full; free space and open the lake again (all acknowledged is kept)"
        )
    if error.errno == errno.EFBIG:
        return StoreError(
            f"lake {where}: a file reached the size limit of this process; raise it (ulimit -f) and reopen"
        )
    if error.errno in _REFUSED:
        return StoreError(
            f"lake {where}: cannot be written ({error.strerror}); give this user write access or read it only"
        )
    return StoreError(f"lake {where}: {error.strerror or error}; check the disk, then run `silva lake doctor`")


@contextmanager
def refusals(where: str) -> Iterator[None]:
    """Turn an `OSError` of the block into a one-line `StoreError` naming `where`."""
    try:
        yield
    except OSError as error:
        raise refusal(where, error) from error


def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):  # not Linux, or a C library without it
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


_begin = _sync_file_range()
_WRITE = 2


def begin_sync(descriptor: int, at: int, size: int) -> None:
    """Have the disk begin with bytes that are soon to be made durable, and do not wait for it. Where the system cannot,
    `fdatasync` does all of it."""
    if _begin is not None:
        _begin(descriptor, at, size, _WRITE)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(file: Path) -> None:
    """Make the bytes of `file` durable."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, durably."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def write_whole(file: Path, data: bytes) -> None:
    """Write `file` so that it is there whole and durable, or not at all."""
    draft = _draft(file, data)
    try:
        draft.replace(file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def create_whole(file: Path, data: bytes) -> bool:
    """As `write_whole`, of a file that is not there yet; False where it is, which is then left as it was."""
    draft = _draft(file, data)
    try:
        os.link(draft, file)  # unlike a rename it never takes the place of what another wrote meanwhile
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(file.parent)
    return True


def _draft(file: Path, data: bytes) -> Path:
    make_folder(file.parent)
    draft = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with draft.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft


def settle(root: Path, since: float) -> int:
    """Make durable every file under `root` changed since `since` (Unix seconds), then the folders; return how many."""
    settled = 0
    for folder, _, names in os.walk(root):
        changed = False
        for name in names:
            file = Path(folder, name)
            if file.stat().st_mtime >= since:
                sync_file(file)
                settled, changed = settled + 1, True
        if changed or Path(folder).stat().st_mtime >= since:
            sync_folder(Path(folder))
    return settled
