"""A segment of the journal: the file that is being written, and the names of those that are there.

    begin ─▶ magic ─▶ write a batch: where the last one ended, fdatasync ─▶ … ─▶ finish: cut to size, renamed
                          └─ in a quiet moment, lay_ahead: zeros for batches to come

What is written into bytes that a file already has changes neither its size nor where it lies, so the file system has
nothing of its own to write down: such a batch is on disk in half the time. Zeros are no frame; readers stop at them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from silva.lake.durable import begin_sync, sync_file, sync_folder
from silva.lake.frames import HEADER, MAGIC, as_batch

AHEAD = 1 << 20
"""So many zeros are laid out at once."""
_ZEROS = bytes(AHEAD)
_PER_WRITER = 1 << 24
"""A writer of an object store has so many numbers of segments to itself."""
_MOST_PARTS = 1024
"""Linux takes no more in one call."""


class Segment:
    """The segment being written. Not safe for several threads.

    Args:
        folder: the journal's.
        number: the segment's.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.begun = time.monotonic()
        self._path = folder / f"{number:010d}.open"
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            _write(self._descriptor, [MAGIC], 0)
            os.fsync(self._descriptor)
            sync_folder(folder)
        except OSError:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)
            raise
        self.size = self._length = len(MAGIC)
        self._no_room = False

    @property
    def empty(self) -> bool:
        """Whether it holds nothing."""
        return self.size == len(MAGIC)

    @property
    def is_short(self) -> bool:
        """Whether it could do with more room ahead."""
        return not self._no_room and self._length - self.size <= AHEAD // 4

    def write(self, parts: Sequence[bytes], meanwhile: Callable[[], object] | None = None) -> None:
        """Return once `parts` (whole frames, one after another) are on disk, as one batch. `meanwhile` is called while
        the disk is at work; it must not raise.

        Raises:
            OSError: they are not; `cut` takes off what was half written.
        """
        size = _write(self._descriptor, [as_batch(parts[0]), *parts[1:]], self.size)
        if meanwhile is not None:
            begin_sync(self._descriptor, self.size, size)
            meanwhile()
        os.fdatasync(self._descriptor)
        self.size += size
        self._length = max(self._length, self.size)

    def lay_ahead(self) -> None:
        """Have room for batches to come, where the disk has some."""
        if self.empty or not self.is_short:
            return
        try:
            self.reserve()
        except OSError:  # batches may be small enough; who writes one is told
            self._no_room = True

    def reserve(self) -> None:
        """Lay out zeros for batches to come.

        Raises:
            OSError: the disk gives no room for them.
        """
        try:
            _write(self._descriptor, [_ZEROS], self._length)
            os.fdatasync(self._descriptor)
            self._length += AHEAD
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            self._length = self.size
            raise

    def cut(self, size: int | None = None) -> None:
        """Take off what is behind the last batch, or behind an earlier end of one.

        Raises:
            OSError: the disk refuses.
        """
        self.size = self.size if size is None else size
        os.ftruncate(self._descriptor, self.size)
        os.fdatasync(self._descriptor)
        self._length = self.size

    def finish(self) -> bool:
        """Seal it, or remove it where it holds nothing; whether it was sealed.

        Raises:
            OSError: the disk refuses.
        """
        empty = self.empty
        try:
            if not empty and self._length > self.size:
                self.cut()
        finally:
            self.close()
        if empty:
            self._path.unlink()
        else:
            seal(self._path)
        return not empty

    def close(self) -> None:
        """Let go of the file, as it is."""
        os.close(self._descriptor)


def seal(path: Path) -> Path:
    """Rename an open segment to sealed, durably; return its new name."""
    sync_file(path)
    target = path.with_suffix(".sealed")
    path.rename(target)
    sync_folder(path.parent)
    return target


def segments(folder: Path) -> dict[int, Path]:
    """The segments in `folder` by number, in order."""
    if not folder.is_dir():
        return {}
    found = (path for path in folder.iterdir() if path.suffix in (".open", ".sealed") and path.stem.isdigit())
    return {int(path.stem): path for path in sorted(found, key=lambda path: (int(path.stem), path.suffix))}


def numbered(writer: int, count: int) -> int:
    """The number of the `count`th segment of the writer of that number (from 1)."""
    return writer * _PER_WRITER + count


def is_numbered(number: int) -> bool:
    """Whether the number says its writer; those of an older version, which two machines may both have used, do not."""
    return number >= _PER_WRITER


def renumber(path: Path, number: int) -> Path:
    """Give a segment another number, durably; return its new name."""
    target = path.with_name(f"{number:010d}{path.suffix}")
    path.rename(target)
    sync_folder(path.parent)
    return target


def added(file: BinaryIO, offset: int, *, sealed: bool) -> bytes:
    """What stands in a segment from `offset` on; nothing of an open one that has only zeros there. The file must not be
    buffered: what was zeros at the last look may be a record now."""
    file.seek(offset)
    head = file.read(HEADER.size)
    return head + file.read() if sealed or any(head) else b""


def _write(descriptor: int, parts: Sequence[bytes], at: int) -> int:
    """Write parts one after another, as they lie in memory; return how many bytes they have together."""
    begun = at
    for start in range(0, len(parts), _MOST_PARTS):
        left: list[bytes | memoryview] = list(parts[start : start + _MOST_PARTS])
        while left:
            written = os.pwritev(descriptor, left, at)
            at += written
            left = _behind(left, written)
    return at - begun


def _behind(parts: list[bytes | memoryview], size: int) -> list[bytes | memoryview]:
    """What follows the first `size` bytes."""
    for number, part in enumerate(parts):
        if size < len(part):
            return [memoryview(part)[size:], *parts[number + 1 :]]
        size -= len(part)
    return []
