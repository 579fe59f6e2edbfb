"""Follows what another process writes to a lake: every record once, soon after it is durable.

    journal folder ─▶ segments ─▶ bytes beyond what was read ─▶ whole frames ─▶ records

A look costs one listing of the folder and a few bytes read when nothing was added. The segment that is written is
held open, so that it is read to its end although it was sealed and compacted away since the last look. One that came
and went between two looks is not silently passed over: `missed` says so, and whoever keeps a picture must make it anew
from the tables.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import BinaryIO

from silva.lake.frames import MAGIC, Entry, entry, scan, whole
from silva.lake.segment import added, segments

SEALED = ".sealed"


class _Place:
    __slots__ = ("file", "offset", "whole")

    def __init__(self) -> None:
        self.file: BinaryIO | None = None
        self.offset = len(MAGIC)
        self.whole = False


class Follower:
    """Reads a journal as it grows. Not safe for several threads.

    Args:
        journal: the folder of its segments; need not exist yet.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._places: dict[int, _Place] = {}
        self._newest: int | None = None
        self.missed = False

    @property
    def empty(self) -> bool:
        """Whether no segment was there at the last look: all is in the tables."""
        return not self._places

    def fresh(self) -> list[Entry]:
        """The records that were added since the last look, in order; at first, all that the journal holds.

        Raises:
            StoreError: a record was written by a newer Silva.
            OSError: a segment cannot be read.
        """
        found = segments(self._journal)
        entries: list[Entry] = []
        newest = max(self._places, default=None)
        for number in sorted(number for number in self._places if number not in found):
            entries += self._rest(self._places.pop(number))
        for number, path in found.items():
            if number not in self._places and newest is not None and number > newest + 1:
                self.missed = True  # one came and went between two looks
            entries += self._read(self._places.setdefault(number, _Place()), path)
            newest = number if newest is None else max(newest, number)
        return entries

    def close(self) -> None:
        """Let go of the segment that is held open."""
        for place in self._places.values():
            if place.file is not None:
                place.file.close()
        self._places.clear()

    def _rest(self, place: _Place) -> list[Entry]:
        """What was added to a segment before it was compacted away."""
        if place.whole:
            return []
        if place.file is None:
            self.missed = True
            return []
        return self._added(place, place.file, sealed=True)

    def _read(self, place: _Place, path: Path) -> list[Entry]:
        if place.whole:
            return []
        for candidate in (path, path.with_suffix(SEALED)):
            if place.file is None:
                with contextlib.suppress(FileNotFoundError):
                    place.file = candidate.open("rb", buffering=0)
        if place.file is None:
            return []  # compacted since the folder was listed; the next look finds it gone
        return self._added(place, place.file, sealed=path.suffix == SEALED)

    def _added(self, place: _Place, file: BinaryIO, *, sealed: bool) -> list[Entry]:
        data = added(file, place.offset, sealed=sealed)
        payloads, end = whole(data)
        if sealed:
            if end < len(data):
                payloads = scan(data).payloads  # what is whole stays readable until doctor repairs it
            place.whole, place.file = True, None
            file.close()
        place.offset += end
        return [entry(payload) for payload in payloads]
