"""A table one of whose files is damaged, read without what cannot be read.

    row ids (no data file holds them) ─▶ stretches of one fragment each ─▶ read ─▶ refused? halve it ─▶ rows, Gaps

Lance reads a table as a whole or not at all. A fragment is a file or a few; a page of it may be bad, and others good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

_FRAGMENT = 32
"""A row's id is its fragment's number and, in so many bits, its place there."""
_FINEST = 64
"""A stretch is halved so far that it is one of so many parts of its fragment, or one row."""


class Gap(NamedTuple):
    """Rows `start` to `end` (the last not among them) of a table in its order, and why they cannot be read."""

    start: int
    end: int
    why: str


def readable(table: Any, columns: Sequence[str] | None = None) -> tuple[pa.Table, list[Gap]]:
    """The rows of a Lance table that can be read, and those that cannot.

    Args:
        table: an opened table.
        columns: the names of the columns wanted; None: all.
    """
    gaps: list[Gap] = []
    found: list[pa.Table] = []
    for start, end in _stretches(table):
        for each in _read(table, columns, start, end, max(1, (end - start) // _FINEST)):
            if isinstance(each, Gap):
                before = gaps[-1] if gaps else None
                if before is not None and before.end == each.start:
                    gaps[-1] = Gap(before.start, each.end, before.why)
                else:
                    gaps.append(each)
            else:
                found.append(each)
    schema = table.schema if columns is None else pa.schema([table.schema.field(name) for name in columns])
    return pa.concat_tables([schema.empty_table(), *found]), gaps


def _stretches(table: Any) -> Iterator[tuple[int, int]]:
    ids = table.search().with_row_id(True).select(["_rowid"]).to_arrow().column("_rowid").to_pylist()
    start = 0
    for _, members in groupby(ids, lambda each: each >> _FRAGMENT):
        end = start + sum(1 for _ in members)
        yield start, end
        start = end


def _read(table: Any, columns: Sequence[str] | None, start: int, end: int, least: int) -> Iterator[pa.Table | Gap]:
    query = table.search().offset(start).limit(end - start)
    try:
        yield (query if columns is None else query.select(list(columns))).to_arrow()
    except (RuntimeError, OSError, ValueError) as error:  # what Lance raises of a file it cannot read
        if end - start <= least:
            yield Gap(start, end, " ".join(str(error).split())[:160])
            return
        middle = (start + end) // 2
        yield from _read(table, columns, start, middle, least)
        yield from _read(table, columns, middle, end, least)
