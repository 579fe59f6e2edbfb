"""Follows what another process writes to a lake: every record once, soon after it is durable.

    journal folder ─▶ segments ─▶ bytes beyond what was read ─▶ whole frames ─▶ records

A look costs one listing of the folder and one `stat` a segment when nothing was added. A segment that was compacted
away before it was read to its end is not silently passed over: `missed` says so, and whoever keeps a picture must make
it anew from the tables.
"""

from __future__ import annotations

from pathlib import Path

from silva.lake.frames import MAGIC, Entry, entry, scan, whole
from silva.lake.journal import segments

SEALED = ".sealed"


class _Place:
    __slots__ = ("offset", "whole")

    def __init__(self) -> None:
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
        self.missed = False

    def fresh(self) -> list[Entry]:
        """The records that were added since the last look, in order; at first, all that the journal holds.

        Raises:
            StoreError: a record was written by a newer Silva.
            OSError: a segment cannot be read.
        """
        found = segments(self._journal)
        for number in [number for number in self._places if number not in found]:
            self.missed |= not self._places.pop(number).whole
        newest = max(self._places, default=None)
        entries: list[Entry] = []
        for number, path in found.items():
            if number not in self._places and newest is not None and number > newest + 1:
                self.missed = True  # one came and went between two looks
            entries += self._read(self._places.setdefault(number, _Place()), path)
            newest = number if newest is None else max(newest, number)
        return entries

    def _read(self, place: _Place, path: Path) -> list[Entry]:
        if place.whole:
            return []
        for candidate in (path, path.with_suffix(SEALED)):
            try:
                if candidate.suffix != SEALED and candidate.stat().st_size <= place.offset:
                    return []
                with candidate.open("rb") as file:
                    file.seek(place.offset)
                    data = file.read()
            except FileNotFoundError:
                continue
            break
        else:
            return []  # compacted since the folder was listed; the next look finds it gone
        payloads, end = whole(data)
        if candidate.suffix == SEALED:
            if end < len(data):
                payloads = scan(data).payloads  # what is whole stays readable until doctor repairs it
            place.whole = True
        place.offset += end
        return [entry(payload) for payload in payloads]
