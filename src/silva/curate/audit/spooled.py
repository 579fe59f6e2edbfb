"""A sequence on disk: what an audit of very many rows finds does not have to fit into memory.

append ─▶ memory, then an unnamed temporary file, eight bytes of memory an item ─▶ read in order, or one by one
"""

from __future__ import annotations

import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from silva.errors import StoreError

T = TypeVar("T")
_BUFFER = 8 << 20
"""Bytes that are kept in memory before they are written, so that little of it never is."""
_READ = 512
"""Items that are read at once."""


class Spooled(Sequence[T], Generic[T]):
    """Items in the order in which they were added. The file has no name, so nobody else reads or changes it, and it is
    gone when the sequence is; it lies in the folder for temporary files (`TMPDIR`)."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._file: Any = None
        self._ends = array("q", [0])
        self._unwritten: list[bytes] = []
        self._waiting = 0
        self.extend(items)

    def append(self, item: T) -> None:
        """Add an item.

        Raises:
            StoreError: there is no room for it.
        """
        data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        self._unwritten.append(data)
        self._waiting += len(data)
        self._ends.append(self._ends[-1] + len(data))
        if self._waiting >= _BUFFER:
            self._write()

    def extend(self, items: Iterable[T]) -> None:
        """Add items, in order.

        Raises:
            StoreError: there is no room for them.
        """
        for each in items:
            self.append(each)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[T]:
        for begin in range(0, len(self), _READ):
            yield from self._read(begin, min(begin + _READ, len(self)))

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            begin, end, step = place.indices(len(self))
            return self._read(begin, end) if step == 1 and begin < end else [self[at] for at in range(begin, end, step)]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(place)
        return self._read(at, at + 1)[0]

    def _read(self, begin: int, end: int) -> list[T]:
        if self._file is None:
            return [pickle.loads(self._unwritten[at]) for at in range(begin, end)]
        self._write()
        first = self._ends[begin]
        data = os.pread(self._file.fileno(), self._ends[end] - first, first) if end > begin else b""
        return [pickle.loads(data[self._ends[at] - first : self._ends[at + 1] - first]) for at in range(begin, end)]

    def _write(self) -> None:
        if not self._unwritten:
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the sequence
            rest = memoryview(b"".join(self._unwritten))
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise StoreError(
                f"{tempfile.gettempdir()}: what was found so far cannot be put aside ({error.strerror}); make room, or "
                "name another folder with TMPDIR"
            ) from error
        self._unwritten, self._waiting = [], 0
