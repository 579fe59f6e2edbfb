"""The tail: what is in the journal and not yet in the tables, as a reader sees it.

Segments are read incrementally, whole frames only, so that looking again costs what was added. A reader takes the
tail *first* and the tables *afterwards*: a segment compacted in between is then seen twice, never missed, and ids
decide.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from silva.errors import StoreError
from silva.lake.column import Table
from silva.lake.columns import TABLES
from silva.lake.entry import Arrival, BlobEntry
from silva.lake.frames import MAGIC, Entry, entry, scan, whole
from silva.lake.rows import build, key_of
from silva.lake.segment import added, segments
from silva.tree import Node, Run, Supervision, Task, Trajectory

log = logging.getLogger(__name__)

_NAMES: dict[type, str] = {
    Node: "nodes",
    Trajectory: "trajectories",
    Task: "tasks",
    Run: "runs",
    Supervision: "supervisions",
    BlobEntry: "blobs",
    Arrival: "arrivals",
}


class Sorted:
    """Entries by table, each key once: the first of nodes, supervisions and blobs, the last of the others."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.tables: dict[str, dict[Any, Any]] = {name: {} for name in TABLES}
        self.add(entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Take further entries, in the order they were written."""
        for item in entries:
            name = _NAMES[type(item)]
            key = key_of(TABLES[name], item)
            if TABLES[name].last_wins:
                self.tables[name][key] = item
            else:
                self.tables[name].setdefault(key, item)


class _Segment:
    def __init__(self) -> None:
        self.offset = len(MAGIC)
        self.entries: list[Entry] = []


class Tail:
    """The records of a journal folder's segments. Safe to use from several threads.

    Attributes:
        left_out: by segment, why records of it that are whole could not be read; they are in no answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: dict[int, _Segment] = {}
        self._sorted = Sorted()
        self._chunks: dict[str, list[pa.Table]] = {}
        self._mutex = threading.Lock()
        self.left_out: dict[int, list[str]] = {}

    def refresh(self) -> None:
        """Read what was added since the last time; forget segments that are gone."""
        with self._mutex:
            found = segments(self._folder)
            gone = [number for number in self._segments if number not in found]
            for number in gone:
                del self._segments[number]
                self.left_out.pop(number, None)
            fresh: list[Entry] = []
            for number, path in found.items():
                fresh += self._read(number, path)
            if gone:
                self._chunks = {}
                self._sorted = Sorted(
                    item for number in sorted(self._segments) for item in self._segments[number].entries
                )
            elif fresh:
                self._chunks = {name: chunks for name, chunks in self._chunks.items() if not TABLES[name].last_wins}
                self._sorted.add(fresh)

    def _read(self, number: int, path: Path) -> list[Entry]:
        segment = self._segments.setdefault(number, _Segment())
        data = _bytes_from(path, segment.offset)
        if not data:
            return []
        payloads, end = whole(data)
        if end < len(data) and path.suffix == ".sealed":
            payloads, end = scan(data).payloads, len(data)  # what is whole stays readable until doctor repairs it
        entries = list(self._whole(number, payloads))
        segment.entries += entries
        segment.offset += end
        return entries

    def _whole(self, number: int, payloads: Iterable[bytes]) -> Iterator[Entry]:
        for payload in payloads:
            try:
                yield entry(payload)
            except StoreError as error:
                before = self.left_out.setdefault(number, [])
                before.append(str(error))
                if len(before) == 1:
                    log.warning("segment %d: a record cannot be read and is left out (%s)", number, error)

    def records(self, table: Table) -> list[Any]:
        """The records of one table, each id once."""
        with self._mutex:
            return list(self._sorted.tables[table.name].values())

    def rows(self, table: Table) -> pa.Table:
        """The records of one table as rows."""
        with self._mutex:
            chunks = self._chunks.setdefault(table.name, [])
            done = sum(chunk.num_rows for chunk in chunks)
            records = list(self._sorted.tables[table.name].values())[done:]
            if records or not chunks:
                chunks.append(build(table, records, [-1] * len(records)))
            return pa.concat_tables(chunks)


def _bytes_from(path: Path, offset: int) -> bytes | None:
    for candidate in (path, path.with_suffix(".sealed")):
        try:
            with candidate.open("rb", buffering=0) as file:
                return added(file, offset, sealed=candidate.suffix == ".sealed")
        except FileNotFoundError:
            continue
    return None  # compacted since the folder was listed: its rows are in the tables, which are looked at afterwards
