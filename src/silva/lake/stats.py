"""What a lake holds, in numbers."""

from __future__ import annotations

import os
from pathlib import Path

from silva.lake.columns import TABLES
from silva.lake.place import Folder, Place
from silva.lake.segment import segments
from silva.lake.tables import Tables
from silva.lake.tail import Tail
from silva.lake.versions import versions
from silva.tree import Record


class Stats(Record, frozen=True, kw_only=True):
    """A lake in numbers: `rows` in the tables, `pending` still in the journal; sizes in bytes, None where unknown."""

    location: str
    schema: int
    rows: dict[str, int]
    pending: dict[str, int]
    unindexed: int
    segments: int
    journal_bytes: int
    table_bytes: int | None = None
    blob_bytes: int | None = None
    versions: tuple[str, ...] = ()
    failure: str | None = None


def measure(place: Place, tables: Tables, tail: Tail | None, schema: int, failure: str | None) -> Stats:
    """Count and weigh a lake."""
    pending: dict[str, int] = {}
    if tail is not None:
        tail.refresh()
        pending = {name: len(tail.records(table)) for name, table in TABLES.items()}
    journal = segments(place.journal) if tail is not None else {}
    local = isinstance(place, Folder)
    return Stats(
        location=place.where,
        schema=schema,
        rows={name: tables.count(name) for name in TABLES},
        pending=pending,
        unindexed=tables.unindexed("nodes"),
        segments=len(journal),
        journal_bytes=sum(_size(path) for path in journal.values()),
        table_bytes=_weigh(Path(place.tables)) if local else None,
        blob_bytes=_weigh(place.root / "blobs") if isinstance(place, Folder) else None,
        versions=tuple(version.name for version in versions(place)),
        failure=failure,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # compacted while we looked
        return 0


def _weigh(root: Path) -> int:
    return sum(_size(Path(folder, name)) for folder, _, names in os.walk(root) for name in names)
