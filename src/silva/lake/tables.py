"""The Lance tables of a lake: opened, added to, searched. One `Tables` per open lake; safe to use from threads.

Blocking throughout. A commit of Lance is atomic but not durable; on a folder `merge` settles the files of a commit
before it returns.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute

from silva.errors import SilvaError, StoreError
from silva.lake.column import Table
from silva.lake.columns import NODES, TABLES
from silva.lake.durable import refusals, settle
from silva.lake.lancedb_module import lancedb
from silva.lake.matching import matching
from silva.lake.piecewise import readable
from silva.lake.place import Folder, Place

log = logging.getLogger(__name__)

EMBEDDINGS = "embeddings"

CACHES_MB = 288.0
"""What Lance may keep in memory of indices (eight ninths) and of what it knows of files. Every commit makes new files,
and its own bounds are gigabytes: a process that writes and reads for days would grow for days."""
_OF_THE_MACHINE = re.compile(r"os error (?!2\b)\d+")
"""A file that may not be opened (or a disk that fails) may be there as a whole: then nothing is left out. One that is
gone (2) is not."""
KEEP = timedelta(hours=1)
"""How long `optimize` keeps versions no tag names, so that a reader in the middle of one can finish."""
OPTIMIZE_AT = 100_000
"""Rows of nodes outside the indices from which a lake that is closed is optimised."""


class Tables:
    """The tables at a place; with `pinned` (version by table name) as they were when they were tagged `tag`, else as
    they are. `caches_mb`: what Lance may keep in memory of indices and files.

    Attributes:
        left_out: rows that could not be read and so are in no answer: why, by table and the row's name.
    """

    def __init__(
        self, place: Place, pinned: dict[str, int] | None = None, caches_mb: float = CACHES_MB, *, tag: str = ""
    ) -> None:
        self._place, self._pinned, self._branch = place, pinned, _branch(tag)
        self._opened: dict[str, Any] = {}
        self._mutex = threading.RLock()
        self.left_out: dict[tuple[str, str], str] = {}
        database = lancedb()  # half a second to import: only a lake that is opened pays it
        with self.refusals("open"):
            files = int(caches_mb * (1 << 20)) // 9
            self._kept = database.Session(index_cache_size_bytes=8 * files, metadata_cache_size_bytes=files)
            self._database = database.connect(place.tables, storage_options=place.options or None, session=self._kept)

    @contextmanager
    def refusals(self, what: str) -> Iterator[None]:
        """Turn whatever Lance raises in the block into a one-line `StoreError`."""
        try:
            with refusals(self._place.where):
                yield
        except SilvaError:
            raise
        except Exception as error:
            line = " ".join(str(error).split())
            if "No space left on device" in line or "os error 28" in line:
                raise StoreError(
                    f"lake {self._place.where}: the disk is full ({what}); free space and open the lake again "
                    "(all acknowledged is kept)"
                ) from error
            raise StoreError(
                f"lake {self._place.where}: cannot {what} ({line[:200]}); run `silva lake doctor`"
            ) from error

    def leave_out(self, table: str, row: str, why: str) -> None:
        """Remember, and say once, that a row is in no answer."""
        if (table, row) not in self.left_out:
            self.left_out[table, row] = why
            log.warning(
                "lake %s: table %s: %s cannot be read and is left out (%s); run `silva lake doctor`",
                self._place.where,
                table,
                row,
                why,
            )

    def names(self) -> set[str]:
        """Names of the tables that exist."""
        with self.refusals("list tables"):
            return set(_names(self._database))

    def open(self, name: str) -> Any | None:
        """The table at its newest (or pinned) version, or None while there is none."""
        with self._mutex, self.refusals(f"open table {name}"):
            table = self._opened.get(name)
            if table is not None:
                if self._pinned is None:
                    table.checkout_latest()
                return table
            table = self.snapshot(name)
            if table is not None:
                self._opened[name] = table
            return table

    def snapshot(self, name: str) -> Any | None:
        """The table as it is now (or was pinned), a handle of its own that stays at that version; None without one."""
        if self._pinned is not None and name not in self._pinned:
            return None
        with self.refusals(f"open table {name}"):
            try:
                table = self._database.open_table(name)
            except ValueError as error:
                if "was not found" in str(error):  # not there, or its first commit is being made right now
                    return None
                raise
            if self._pinned is not None:
                if self._branch in table.branches.list():
                    return table.branches.checkout(self._branch)
                table.checkout(self._pinned[name])  # tagged by an older version
            return table

    def count(self, name: str) -> int:
        """Number of rows of a table; 0 while there is none."""
        table = self.open(name)
        if table is None:
            return 0
        with self.refusals(f"read table {name}"):
            return table.count_rows()

    def tag(self, name: str, tag: str) -> int:
        """Have Lance keep the table as it is now under the tag; return its version. The tag is a branch that nobody
        goes on from: what it needs is kept, and no more, while a tag of Lance's own forbids dropping any later version.
        """
        started = time.time() - 1.0
        with self._mutex, self.refusals(f"tag table {name}"):
            table = self.open(name)
            if table is None:
                raise StoreError(f"lake {self._place.where}: table {name} is gone; run `silva lake doctor`")
            self._keep(table, tag, table.version)
            self.settle(name, started)
            return table.version

    def _keep(self, table: Any, tag: str, version: int) -> None:
        if _branch(tag) in table.branches.list():  # left by a tagging that was killed before it was told
            table.branches.delete(_branch(tag))
        table.branches.create(_branch(tag), from_version=version)

    def newest_segment(self) -> int:
        """The highest number of a segment any row came from; 0 when there is none."""
        newest = 0
        for name in TABLES:
            table = self.open(name)
            if table is not None:
                with self.refusals(f"read table {name}"):
                    rows = self.select(name, columns=["segment"])
                    newest = max(newest, 0 if rows is None else _largest(rows.column("segment")))
        return newest

    def merge(self, spec: Table, rows: pa.Table) -> None:
        """Add the rows durably in one commit: new keys are inserted; a known one is replaced where the last one wins,
        unless it came from a later segment: what a dead writer left may be merged after its successor's."""
        started = time.time() - 1.0
        with self._mutex, self.refusals(f"write table {spec.name}"):
            table = self.open(spec.name)
            if table is None:
                table = self.create(spec.name, spec.schema)
            there = set(table.schema.names)
            missing = [field for field in spec.schema if field.name not in there]
            if keys := {field.name: "cast('' as string)" for field in missing if field.name in spec.key}:
                table.add_columns(keys)  # what is no run's has an empty one: null equals nothing
            if others := [field for field in missing if field.name not in keys]:
                table.add_columns(others)
            known = [field.name for field in table.schema]
            builder = table.merge_insert(list(spec.key))
            if spec.last_wins:
                builder = builder.when_matched_update_all(where="target.segment <= source.segment")
            builder.when_not_matched_insert_all().execute(rows.select(known))
            self.settle(spec.name, started)

    def delete(self, name: str, where: str) -> None:
        """Delete the rows that meet a condition, durably. A tagged version keeps them."""
        started = time.time() - 1.0
        with self._mutex, self.refusals(f"delete rows of table {name}"):
            table = self.open(name)
            if table is not None:
                table.delete(where)
                self.settle(name, started)

    def create(self, name: str, schema: pa.Schema) -> Any:
        """Create a table, empty."""
        with self._mutex, self.refusals(f"create table {name}"):
            self._opened[name] = self._database.create_table(name, schema=schema, exist_ok=True)
            return self._opened[name]

    def settle(self, name: str, since: float) -> None:
        """Make durable what was written to the table since then."""
        if isinstance(self._place, Folder):
            settle(Path(self._place.tables, f"{name}.lance"), since)

    def select(
        self, name: str, where: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.Table | None:
        """Rows of a table, or None while there is none. Those of a damaged file are left out, and remembered."""
        table = self.open(name)
        if table is None:
            return None
        with self.refusals(f"read table {name}"):
            query = table.search()
            if where:
                query = query.where(where)
            if columns is not None:
                query = query.select(list(columns))
            if limit is not None:
                query = query.limit(limit)
            try:
                return query.to_arrow()
            except (RuntimeError, OSError) as error:
                if not isinstance(self._place, Folder) or _OF_THE_MACHINE.search(str(error)):
                    raise
                found, gaps = readable(table, None if where else columns)
                if not gaps:
                    raise
            for gap in gaps:
                self.leave_out(name, f"row {gap.start + 1} to {gap.end}", gap.why)
            found = matching(found, where) if where else found
            return (found if columns is None else found.select(list(columns)))[:limit]

    def text(self, words: str, limit: int) -> pa.Table | None:
        """The best rows of `nodes` for the words, with `_score`; None while there is no index to ask."""
        table = self.open(NODES.name)
        if table is None:
            return None
        with self.refusals("search text"):
            if not any("text" in index.columns for index in table.list_indices()):
                return None
            try:
                return table.search(words, query_type="fts", fts_columns="text").limit(limit).to_arrow()
            except (RuntimeError, OSError) as error:  # a file is damaged: the texts that can be read are
                log.warning("lake %s: full text: %s", self._place.where, " ".join(str(error).split())[:200])
                return None

    def unindexed(self, name: str) -> int:
        """Rows of a table that its key's index does not cover yet."""
        table = self.open(name)
        if table is None:
            return 0
        with self.refusals(f"read table {name}"):
            indices = [index for index in table.list_indices() if "id" in index.columns]
            if not indices:
                return table.count_rows()
            stats = table.index_stats(indices[0].name)
            return table.count_rows() if stats is None else stats.num_unindexed_rows

    def optimize(self, keep: timedelta) -> None:
        """Merge small files, build or extend the indices, and drop versions older than `keep`."""
        from lancedb.index import FTS, BTree

        for name in sorted(self.names()):
            started = time.time() - 1.0
            with self._mutex, self.refusals(f"optimise table {name}"):
                table = self.open(name)
                if table is None or table.count_rows() == 0:
                    continue
                indexed = {column for index in table.list_indices() for column in index.columns}
                for column in _wanted(name) - indexed:
                    config = (
                        FTS(with_position=False, stem=False, remove_stop_words=False) if column == "text" else BTree()
                    )
                    table.create_index(column, config=config, replace=True)
                for tag, kept in table.tags.list().items():  # of an older version
                    self._keep(table, tag, kept["version"])
                    table.tags.delete(tag)
                table.checkout_latest()  # without it the merge of small files silently does nothing
                table.optimize(cleanup_older_than=keep)
                table.checkout_latest()
                self.settle(name, started)


def _branch(tag: str) -> str:
    return f"tag-{tag}"


def _wanted(name: str) -> set[str]:
    if name == EMBEDDINGS:
        return {"id"}
    columns = {column.name for column in TABLES[name].columns if column.index} if name in TABLES else set()
    return columns | ({"text"} if name == NODES.name else set())


def _names(database: Any) -> list[str]:
    found: list[str] = []
    token: str | None = None
    while True:
        page = database.list_tables(page_token=token)
        found += page.tables
        token = page.page_token
        if not token:
            return found


def _largest(numbers: pa.ChunkedArray) -> int:
    return compute.max(numbers).as_py() or 0  # pyright: ignore[reportAttributeAccessIssue]
