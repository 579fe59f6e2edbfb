"""The compactor: sealed segments to tables, oldest first, one at a time, by the lake's one writer.

    sealed segment ──▶ rows ──▶ one merge per table (atomic, then settled) ──▶ the segment's file is removed

A kill anywhere leaves the segment in place or its rows in the tables, or both; doing it again adds nothing, because a
table that already holds rows of the segment is skipped and ids are merged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from silva.errors import StoreError
from silva.lake.columns import NODES, TABLES
from silva.lake.durable import refusals, sync_folder
from silva.lake.frames import entry
from silva.lake.journal import segments
from silva.lake.recovery import damaged, inspect
from silva.lake.rows import build
from silva.lake.tables import Tables
from silva.lake.tail import Sorted
from silva.tree import Node

log = logging.getLogger(__name__)

_NEIGHBOURS = attrgetter("tree_id", "slot", "depth")

SLICE = 2_000
"""Rows built at once: a column of so many takes a fraction of a millisecond. Token ids count as so many rows as they
take the time of."""
IDS = 50
"""Token ids that take the time of a row: their columns are built in one go, with the interpreter's lock held."""
PAUSE = 0.002
"""Seconds the thread gives way between columns, so that an event loop beside it hardly notices it."""
GENTLE_BYTES = 32 << 20
"""Larger segments come from bulk writing: then it does not give way, or it would fall behind."""


class Compactor:
    """Turns sealed segments into rows, on call (`drain`) and in a thread of its own (`wake`).

    Args:
        folder: the journal's folder.
        tables: where rows go.
        where: the lake's name in messages.
        check: called before each segment; raises when this process may no longer write.
    """

    def __init__(self, folder: Path, tables: Tables, where: str, check: Callable[[], None] = lambda: None) -> None:
        self._folder, self._tables, self._where, self._check = folder, tables, where, check
        self._mutex = threading.Lock()
        self._wake = threading.Event()
        self._ended = self._awaited = self._gentle = False
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._work, name="silva-compactor", daemon=True)
        self._thread.start()

    def wake(self, number: int = 0) -> None:
        """Ask the thread to look for sealed segments."""
        self._wake.set()

    def drain(self) -> int:
        """Compact every sealed segment now; return how many.

        Raises:
            StoreError: a segment is damaged, or a table cannot be written; the segment stays.
        """
        self._awaited = True
        try:
            return self._drain()
        finally:
            self._awaited = False

    def _drain(self) -> int:
        with self._mutex:
            done = 0
            for number, path in segments(self._folder).items():
                if path.suffix == ".sealed":
                    self._check()
                    self._gentle = path.stat().st_size < GENTLE_BYTES
                    self._compact(number, path)
                    done += 1
            self.failure = None
            return done

    def close(self) -> None:
        """End the thread; a segment in hand is finished first."""
        self._ended = True
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._ended:
                return
            try:
                self._drain()
            except StoreError as error:
                # The journal keeps the segment, so nothing is lost; `close`, `stats` and `doctor` say it again.
                if str(error) != self.failure:
                    log.warning("%s", error)
                self.failure = str(error)

    def _give_way(self) -> None:
        if self._gentle and not (self._awaited or self._ended):
            time.sleep(PAUSE)

    def _compact(self, number: int, path: Path) -> None:
        with refusals(self._where):
            found = inspect(path)
        if found is not None and found.damage:
            raise damaged(self._where, number, found)
        payloads = [] if found is None else found.payloads
        by_table = Sorted()
        for start in range(0, len(payloads), SLICE // 4):
            by_table.add(map(entry, payloads[start : start + SLICE // 4]))
            self._give_way()
        for name, by_id in by_table.tables.items():
            records = list(by_id.values())
            if name == NODES.name:
                # Episodes run side by side, so their turns arrive mixed; a walk in one piece is read twice as fast.
                records.sort(key=_NEIGHBOURS)
            if records and not self._tables.holds_segment(name, number):
                rows = [build(TABLES[name], some, [number] * len(some), self._give_way) for some in _slices(records)]
                self._tables.merge(TABLES[name], pa.concat_tables(rows))
        with refusals(self._where):
            path.unlink()
            sync_folder(self._folder)


def _slices(records: list[Any]) -> Iterator[list[Any]]:
    """The records in order, so many at a time as are built within a moment."""
    some: list[Any] = []
    weight = 0
    for record in records:
        tokens = record.tokens if isinstance(record, Node) else None
        weight += 1 if tokens is None else 1 + len(tokens.ids) // IDS
        some.append(record)
        if weight >= SLICE:
            yield some
            some, weight = [], 0
    if some:
        yield some
