"""Compaction of one sealed segment: its payloads to rows, one merge per table, then its file is removed.

A kill anywhere leaves the segment in place or its rows in the tables, or both; doing it again adds nothing, because ids
are merged. That a segment's rows are there is never concluded from its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from silva.lake.columns import NODES, TABLES
from silva.lake.durable import refusals, sync_folder
from silva.lake.frames import entry
from silva.lake.recovery import damaged, inspect
from silva.lake.rows import build
from silva.lake.tables import Tables
from silva.lake.tail import Sorted
from silva.tree import Node

_NEIGHBOURS = attrgetter("tree_id", "slot", "depth")

SLICE = 2_000
"""Rows built at once: a column of so many takes a fraction of a millisecond. Token ids count as so many rows as they
take the time of."""
IDS = 50
"""Token ids that take the time of a row: their columns are built in one go, with the interpreter's lock held."""


def compact(number: int, path: Path, tables: Tables, where: str, give_way: Callable[[], None]) -> None:
    """Compact one sealed segment.

    Args:
        number: the segment's.
        path: its file.
        tables: where its rows go.
        where: the lake's name in messages.
        give_way: called between pieces of work of a fraction of a millisecond each.

    Raises:
        StoreError: it is damaged, or a table cannot be written; the segment stays.
    """
    with refusals(where):
        found = inspect(path)
    if found is not None and found.damage:
        raise damaged(where, number, found)
    payloads = [] if found is None else found.payloads
    by_table = Sorted()
    for start in range(0, len(payloads), SLICE // 4):
        by_table.add(map(entry, payloads[start : start + SLICE // 4]))
        give_way()
    for name, by_id in by_table.tables.items():
        records = list(by_id.values())
        if name == NODES.name:
            # Episodes run side by side, so their turns arrive mixed; a walk in one piece is read twice as fast.
            records.sort(key=_NEIGHBOURS)
        if records:
            rows = [build(TABLES[name], some, [number] * len(some), give_way) for some in _slices(records)]
            tables.merge(TABLES[name], pa.concat_tables(rows))
    with refusals(where):
        path.unlink()
        sync_folder(path.parent)


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
