"""One folder of checkpoints, several processes: they add beside each other, and remove alone.

    <folder>/.lock          held together while something is added or taken into use, alone while something is removed
    <folder>/uses/NAME      what the sandboxes of one process rest on; locked for as long as the process is there

Both are locks of the kernel (flock), so that whoever is killed lets go. What a process that is gone rested on is
forgotten by the next one that removes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

from silva.errors import StoreError
from silva.tree import Record

_READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)
_NEW = ".new"
_STALE = 60.0


class Removed(Record, frozen=True, kw_only=True):
    """What was removed, or would be: checkpoints, and the layers and contents that no other needs.

    Attributes:
        checkpoints, layers, contents: how many.
        bytes: what they took.
        young: checkpoints that nobody refers to and that are left because they are too new.
    """

    checkpoints: int = 0
    layers: int = 0
    contents: int = 0
    bytes: int = 0
    young: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            checkpoints=self.checkpoints + other.checkpoints,
            layers=self.layers + other.layers,
            contents=self.contents + other.contents,
            bytes=self.bytes + other.bytes,
            young=self.young + other.young,
        )


class Sharing:
    """One process's part in a folder that others use too. A folder that may not be written is only read, unlocked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: Counter[str] = Counter()
        self._fd = -1
        self._path: Path | None = None
        self._changing = Lock()

    @contextlib.contextmanager
    def adding(self) -> Iterator[None]:
        """Hold off whoever removes, beside others who add.

        Raises:
            StoreError: the folder cannot be locked.
        """
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def removing(self) -> Iterator[None]:
        """Hold off everyone.

        Raises:
            StoreError: the folder cannot be locked.
        """
        with self._locked(fcntl.LOCK_EX):
            yield

    def rest(self, names: Iterable[str]) -> None:
        """Take layers into use; call it while `adding`."""
        self._change(Counter(names), 1)

    def leave(self, names: Iterable[str]) -> None:
        """Give layers back."""
        self._change(Counter(names), -1)

    def used(self) -> set[str]:
        """What processes that are there rest on, this one among them; call it while `removing`."""
        found: set[str] = set()
        for path in (self._folder / "uses").glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.suffix != _NEW:
                    found |= _used(path)
                elif path.stat().st_mtime < time.time() - _STALE:
                    path.unlink()  # of one that was killed while it wrote
        return found

    def close(self) -> None:
        """Rest on nothing any more."""
        with self._changing:
            self._names.clear()
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                if self._path is not None:
                    self._path.unlink(missing_ok=True)
                os.close(fd)

    def _change(self, names: Counter[str], by: int) -> None:
        if not names:
            return
        with self._changing:
            for name, count in names.items():
                self._names[name] += by * count
            self._names = +self._names
            if self._fd < 0 and by < 0:
                return
            try:
                self._say(json.dumps(sorted(self._names)).encode())
            except OSError as error:
                if error.errno not in _READ_ONLY:
                    raise StoreError(f"checkpoints in {self._folder} cannot be used: {error.strerror}") from error

    def _say(self, data: bytes) -> None:
        """Put a new file in the place of the one before, locked before it has the name: who removes sees one or the
        other whole, for layers are given back without waiting for a removal to end."""
        if self._path is None:
            (self._folder / "uses").mkdir(exist_ok=True)
            self._path = self._folder / "uses" / f"{os.getpid()}-{secrets.token_hex(4)}"
        new = self._path.with_suffix(_NEW)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, data)
            new.replace(self._path)
        except BaseException:
            os.close(fd)
            raise
        before, self._fd = self._fd, fd
        if before >= 0:
            os.close(before)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        try:
            fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno in _READ_ONLY and how == fcntl.LOCK_SH:
                yield
                return
            raise StoreError(f"checkpoints in {self._folder} cannot be locked: {error.strerror}") from error
        try:
            try:
                fcntl.flock(fd, how)
            except OSError as error:
                raise StoreError(f"checkpoints in {self._folder} cannot be locked: {error.strerror}") from error
            yield
        finally:
            os.close(fd)


def _used(path: Path) -> set[str]:
    """What the process rests on that keeps this file locked; the file is removed where it is gone. Raises
    FileNotFoundError."""
    while True:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return set(json.loads(file.read()))
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                path.unlink(missing_ok=True)
                return set()
        # Another has come in its place meanwhile: the process is there.


def away(paths: Iterable[Path], folder: Path) -> Path | None:
    """Move what is to be removed aside, at once, so that nobody has to wait until it is gone; where it is now."""
    aside: Path | None = None
    for number, path in enumerate(paths):
        if aside is None:
            aside = folder / f".removed-{secrets.token_hex(4)}"
            aside.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            path.rename(aside / f"{number}-{path.name}")
    return aside
