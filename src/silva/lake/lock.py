"""One writer at a time.

A folder is held by a file lock, which the system drops when its holder dies: a lock that can be taken proves that who
held it is gone, whatever process ids say, which mean nothing in another container. A bucket is held by a lease as well
(see `lease`), whose number makes the segments of two machines two.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import uuid
from pathlib import Path

from filelock import FileLock, Timeout

from silva.errors import StoreError
from silva.lake.durable import create_whole, make_folder, refusals
from silva.lake.lease import Lease
from silva.lake.place import Folder, Place
from silva.lake.segment import is_numbered, numbered, renumber, segments
from silva.lake.tables import Tables

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class FolderLock:
    """The writer's lock of a folder (the lake itself, or the spool of an object store).

    Raises:
        StoreError: another process (or this one) holds it, the line names the pid; or the folder cannot be written.
    """

    def __init__(self, folder: Path, where: str) -> None:
        self._holder = folder / "writer.pid"
        with refusals(where):
            make_folder(folder)
            self._lock = FileLock(folder / "writer.lock", is_singleton=False, thread_local=False)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise StoreError(
                    f"lake {where}: is being written by pid {self._pid()}; wait for it to end, or open it to read"
                ) from error
            try:
                self._holder.write_text(str(os.getpid()))
            except OSError:
                self._lock.release()
                raise

    def _pid(self) -> str:
        try:
            return self._holder.read_text() or "unknown"
        except OSError:
            return "unknown"

    def release(self) -> None:
        """Let the next writer in."""
        self._holder.unlink(missing_ok=True)
        self._lock.release()


class Hold:
    """The right to write at a place, until released.

    Raises:
        StoreError: another has it, or the place cannot be written.
    """

    def __init__(self, place: Place) -> None:
        self._lease: Lease | None = None
        self._where = place.where
        folder = lock_folder(place)
        self._lock = FolderLock(folder, place.where)
        if not isinstance(place, Folder):
            try:
                with refusals(place.where):
                    spool = spool_name(folder)
                    proof = _proof(folder, spool)
                self._lease = Lease(place, spool, proof)
            except BaseException:
                self._lock.release()
                raise

    def first(self, journal: Path, newest: int, tables: Tables) -> int:
        """The number of the first segment to write: above all there were in a folder, which one writer after the other
        counts on; in a bucket the writer's own, which no writer of any machine has had.

        Args:
            journal: the place's.
            newest: the highest number of a segment in it.
            tables: the place's.
        """
        if self._lease is None:
            return max(newest, tables.newest_segment()) + 1
        count = 1
        for number, path in segments(journal).items():
            if not is_numbered(number):  # of an older version; another machine may have used the number too
                with refusals(self._where):
                    renumber(path, numbered(self._lease.number, count))
                count += 1
        return numbered(self._lease.number, count)

    @property
    def lapsed(self) -> str | None:
        """Why nothing may be acknowledged any more, in one line; None while it may."""
        return None if self._lease is None else self._lease.lapsed

    def check(self) -> None:
        """Raise where the right was lost."""
        if self._lease is not None:
            self._lease.check()

    def release(self, *, whole: bool = False) -> None:
        """Let the next writer in. `whole`: all that was acknowledged on this machine is in the tables."""
        try:
            if self._lease is not None:
                self._lease.release(whole=whole)
        finally:
            self._lock.release()


def lock_folder(place: Place) -> Path:
    """Where the lock of a place lies: in the lake's folder, or in the spool of an object store."""
    return place.root if isinstance(place, Folder) else place.journal.parent


def held(folder: Path) -> bool:
    """Whether a living process holds the lock of `folder`; looks without taking or writing anything."""
    try:
        descriptor = os.open(folder / "writer.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def spool_name(folder: Path) -> str:
    """The name of a spool, drawn once: what tells this machine's disk from another's."""
    file = folder / "spool.id"
    if not file.exists():
        create_whole(file, uuid.uuid4().hex.encode())
    return file.read_text().strip()


def _proof(folder: Path, spool: str) -> str:
    """What only who holds the lock of this very spool can say, until the machine is started anew; "" where the system
    does not tell. A copy of the spool on another disk or in another container has another file."""
    try:
        file, boot = (folder / "writer.lock").stat(), _BOOT.read_text().strip()
    except OSError:
        return ""
    return hashlib.sha256(f"{spool} {boot} {file.st_dev} {file.st_ino}".encode()).hexdigest()[:32]
