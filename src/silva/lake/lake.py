"""A lake: one folder or object-store URL that remembers every turn, durably, and answers questions about them.

    append ─▶ journal (durable, acknowledged) ─▶ compactor ─▶ Lance tables ─▶ nodes, walks, SQL, full text, vectors
                  └────────── tail ───────────────────────────────▲  readers see both, each id once

One process writes; any number read, meanwhile and afterwards. Reading blocks: a coroutine reads by `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pyarrow as pa

from silva.errors import StoreError, UsageError
from silva.lake import blobs, doctor, search, sql, tasks, versions
from silva.lake.apart import Apart
from silva.lake.columns import ARRIVALS, NODES, RUNS, SUPERVISIONS, TRAJECTORIES
from silva.lake.compactor import Compactor
from silva.lake.entry import Arrival, BlobEntry
from silva.lake.filters import Filter
from silva.lake.frames import Entry, frames, parts
from silva.lake.journal import SEAL_BYTES, Journal
from silva.lake.layout import LAKE_SCHEMA, is_lake, make_lake, remember_tables
from silva.lake.lock import Hold
from silva.lake.place import Place, place
from silva.lake.reader import Reader
from silva.lake.recovery import recover
from silva.lake.segment import segments
from silva.lake.stats import Stats, measure
from silva.lake.tables import CACHES_MB, KEEP, OPTIMIZE_AT, Tables
from silva.lake.tail import Tail
from silva.lake.tiers import Tiers
from silva.tree import Node, Run, Supervision, Task, Trajectory, Tree


class Lake:
    """An open lake. Make one with `Lake.open`; a writer must be closed (`with` and `async with` do). `place`, `tables`,
    `tail`: what it rests on, for this room."""

    def __init__(
        self,
        where: Place,
        mode: Literal["write", "read"],
        version: str | None,
        window_ms: float,
        compaction: Literal["thread", "process"],
        caches_mb: float,
    ) -> None:
        self.place, self.mode = where, mode
        self._journal: Journal | None = None
        self._compactor: Compactor | None = None
        self._hold: Hold | None = None
        self._blobs: set[str] = set()
        self._closed = False
        is_lake(where, make=mode == "write")  # asked before the lock is taken: nothing is written into what is no lake
        if mode == "write":
            self._hold = Hold(where)
        try:
            if not is_lake(where, make=mode == "write"):
                make_lake(where)
            pinned = None if version is None else versions.version(where, version).tables
            self.tables = Tables(where, pinned, caches_mb, tag=version or "")
            self.tail = None if pinned is not None else Tail(where.journal)
            if self._hold is not None:
                self._begin(window_ms, self._hold, Apart(where) if compaction == "process" else None)
        except BaseException:
            if self._hold is not None:
                self._hold.release()
            raise
        self._tiers = None if version is not None else Tiers(where)
        self._reader = Reader(self.tables, self.tail, self._tiers)

    @classmethod
    def open(
        cls,
        location: str | Path,
        mode: Literal["write", "read"] = "write",
        *,
        version: str | None = None,
        storage_options: dict[str, str] | None = None,
        window_ms: float = 5.0,
        compaction: Literal["thread", "process"] = "thread",
        caches_mb: float = CACHES_MB,
    ) -> Lake:
        """Open a lake; a writer makes it where there is none.

        Args:
            location: a folder, or `s3://bucket/prefix`.
            mode: `read` never writes and takes no lock.
            version: a tag; the lake is then read as it was.
            storage_options: keys and endpoint of the object store, as Lance takes them.
            window_ms: how long the journal gathers records before one write, 0 to 20.
            compaction: where the journal becomes tables: in a thread, or in a process of its own, which costs its start
                and its memory but leaves the interpreter to an event loop that is busy.
            caches_mb: what may be kept in memory of the tables' indices and files.

        Raises:
            StoreError: not a lake, of a newer schema, damaged, being written by another, not writable, no such version.
            UsageError: a version is asked for to write.
        """
        if version is not None and mode == "write":
            raise UsageError(f"lake {location}: version {version} can only be read; open it with mode='read'")
        return cls(place(location, storage_options), mode, version, window_ms, compaction, caches_mb)

    @property
    def location(self) -> str:
        """The lake's name, as it was given."""
        return self.place.where

    # Writing

    @property
    def failure(self) -> str | None:
        """Why nothing can be written any more, or None: after a failed write the lake must be opened again."""
        return None if self._journal is None else self._journal.failure

    async def append(self, records: Sequence[Entry]) -> None:
        """Return once the records are on disk. Raises StoreError: they could not be written, or it takes none."""
        if records:
            await self._writer().append(frames(records))

    def submit(self, records: Sequence[Entry]) -> asyncio.Future[None]:
        """Send the records on their way to disk at once; the future is done when they are there. Needs a running loop.

        Raises:
            StoreError: as `append`; a write that fails later raises from the future.
        """
        return self._writer().submit(frames(records))

    def submit_encoded(
        self, records: Sequence[bytes], *, at_once: bool = False, meanwhile: Callable[[], object] | None = None
    ) -> asyncio.Future[None]:
        """As `submit`, of records that `silva.tree.encode` has encoded: for a caller that keeps the bytes as well.
        `at_once`: the event loop has little else to do, so on a quick disk they are written before this returns.
        `meanwhile` is called while they are on their way; it must not raise."""
        return self._writer().submit(parts(records), at_once=at_once, meanwhile=meanwhile)

    def append_sync(self, records: Sequence[Entry]) -> None:
        """As `append`, blocking."""
        if records:
            self._writer().append_sync(frames(records))

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """Return the sha256 of `data`, in hex, once the bytes are durable. The same bytes are stored once."""
        journal = self._writer()
        blob = await asyncio.to_thread(blobs.put, self.place, data)
        if blob not in self._blobs:
            entry = BlobEntry(id=blob, media_type=media_type, size=len(data), at=time.time())
            await journal.append(frames([entry]))
            self._blobs.add(blob)
        return blob

    def get_blob(self, hash: str) -> bytes:
        """The bytes of a blob.

        Raises:
            StoreError: there is no such blob, or it is damaged.
        """
        return blobs.get(self.place if self._tiers is None else self._tiers.holding(hash), hash)

    async def close(self) -> None:
        """Seal and compact what is there, and let the next writer in.

        Raises:
            StoreError: something could not be compacted; it stays in the journal, durable and readable.
        """
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        """As `close`, blocking."""
        if self._closed:
            return
        self._closed = True
        if self._journal is None or self._compactor is None or self._hold is None:
            return
        whole = False
        try:
            self._journal.close()
            self._compactor.close()
            self._compactor.drain()
            if self.tables.unindexed(NODES.name) >= OPTIMIZE_AT:
                self.optimize()
            whole = not segments(self.place.journal)
            remember_tables(self.place, self.tables.names())
        finally:
            self._compactor.end()
            self._hold.release(whole=whole)

    async def __aenter__(self) -> Lake:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    def reserve(self) -> None:
        """Have room on the disk for records to come (1 MB), blocking; raises as `append` where it has none."""
        self._writer().reserve()

    def nodes(
        self,
        *,
        run_id: str | None = None,
        tree_id: str | None = None,
        slot: str | None = None,
        where: Filter | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        """Nodes that meet all conditions, in no promised order."""
        return self._reader.records(NODES, where, limit, run_id=run_id, tree_id=tree_id, slot=slot)

    def trajectories(
        self,
        *,
        run_id: str | None = None,
        task_id: str | None = None,
        env: str | None = None,
        status: str | None = None,
        where: Filter | None = None,
        limit: int | None = None,
    ) -> list[Trajectory]:
        """Trajectories that meet all conditions, in no promised order."""
        status = None if status is None else str(status)
        equal = {"run_id": run_id, "task_id": task_id, "env": env, "status": status}
        return self._reader.records(TRAJECTORIES, where, limit, **equal)

    def trajectory(self, id_or_unique_prefix: str) -> Trajectory:
        """The trajectory of that id, or the only one whose id begins so.

        Raises:
            UsageError: there is none, or there are several.
        """
        return self._reader.one(TRAJECTORIES, id_or_unique_prefix, self.location)

    def walk(self, trajectory: Trajectory) -> tuple[Node, ...]:
        """Its nodes, root first; none where it broke before the first. Raises StoreError: one of them is missing."""
        return self._reader.walk(trajectory, self.location)

    def walks(self, trajectories: Iterable[Trajectory]) -> Iterator[tuple[Node, ...]]:
        """The nodes of each, in their order; raises as `walk`. Faster than one by one."""
        return self._reader.walks(trajectories, self.location)

    def tree(self, tree_id: str) -> Tree:
        """The tree of that id. Raises UsageError: there is none; StoreError: nodes of it are missing."""
        return self._reader.tree(tree_id, self.location)

    def trees(self, tree_ids: Iterable[str]) -> Iterator[Tree]:
        """The tree of each id, in their order; raises as `tree`. Faster than one by one."""
        return self._reader.trees(tree_ids, self.location)

    def tasks(
        self,
        *,
        run_id: str | None = None,
        env: str | None = None,
        where: Filter | None = None,
        limit: int | None = None,
    ) -> list[Task]:
        """Tasks that meet all conditions: of a run its own, each id once; else every run's."""
        return tasks.tasks(self._reader, run_id, env, where, limit)

    def task(self, trajectory: Trajectory) -> Task | None:
        """The task that a trajectory attempted, as its run had it; None where the lake does not hold it."""
        return tasks.task(self._reader, trajectory)

    def runs(self, *, where: Filter | None = None) -> list[Run]:
        """Runs, by when they started."""
        return sorted(self._reader.records(RUNS, where, None), key=lambda run: (run.started, run.id))

    def run(self, run_id: str) -> Run | None:
        """The run of that name, or None."""
        return next(iter(self._reader.records(RUNS, None, None, id=run_id)), None)

    def supervisions(
        self, *, run_id: str | None = None, node_id: str | None = None, where: Filter | None = None
    ) -> list[Supervision]:
        """Judgements, by when they were given."""
        found = self._reader.records(SUPERVISIONS, where, None, run_id=run_id, node_id=node_id)
        return sorted(found, key=lambda each: (each.at, each.id))

    def arrivals(self, *, where: Filter | None = None) -> list[Arrival]:
        """What foreign agents' tracers sent, in no promised order."""
        return self._reader.records(ARRIVALS, where, None)

    def sql(self, query: str) -> pa.Table:
        """Run one SELECT over the tables (DuckDB's dialect).

        Raises:
            UsageError: it is no single SELECT over its tables, or DuckDB refuses it.
        """
        if self.tail is not None:
            self.tail.refresh()
        return sql.query(query, self.tables, self.tail, self._tiers.cold() if self._tiers else None)

    def search(self, text: str, *, limit: int = 20) -> list[tuple[float, Node]]:
        """Nodes whose text holds any of the words, best first, with their BM25 score (see `words`)."""
        found = search.text(self.tables, self.tail, text, limit)
        return search.widened(found, self._tiers.cold() if self._tiers else None, text, limit)

    def nearest(self, vector: Sequence[float], limit: int = 20) -> list[tuple[float, Node]]:
        """Nodes whose stored vectors point most nearly the same way, with their cosine similarity.

        Raises:
            StoreError: no vectors are stored yet.
            UsageError: the vector has another length than those stored.
        """
        return search.nearest(self.tables, self._tiers and self._tiers.cold(), vector, limit, self.location)

    def embed(self, function: search.Embedding, *, column: str = "text", batch: int = 256) -> int:
        """Store a vector for every node with text that has none yet; return how many. Compacts first.

        Args:
            function: texts to as many vectors, all of one length.
            column: the column of `nodes` to embed.
            batch: texts per call.
        """
        self.compact()
        return search.embed(self.tables, function, column, batch)

    # Keeping

    def compact(self) -> None:
        """Move what the journal holds into the tables, now."""
        journal = self._writer()
        journal.seal()
        if self._compactor is not None:
            self._compactor.drain()

    def optimize(self, keep: timedelta = KEEP) -> None:
        """Merge small files, extend the indices, drop versions older than `keep` that no tag needs."""
        if self.mode != "write":
            raise StoreError(f"lake {self.location}: is open to read; open it to write first")
        self.tables.optimize(keep)

    def tag(self, name: str, note: str = "") -> versions.Version:
        """Name the lake as it is now, so that `open(version=name)` reads it so for good."""
        self.compact()
        return versions.tag(self.place, self.tables, name, note)

    def versions(self) -> list[versions.Version]:
        """The tags, oldest first."""
        return versions.versions(self.place)

    def waiting(self) -> int:
        """How many segments of the journal wait to become tables."""
        return len(segments(self.place.journal)) - 1

    def stats(self) -> Stats:
        """What the lake holds and how much room it takes."""
        return measure(
            self.place, self.tables, self.tail, LAKE_SCHEMA, self._compactor.failure if self._compactor else None
        )

    def doctor(self, repair: bool = False) -> list[doctor.Finding]:
        """Check everything; with `repair`, mend what can be mended (a reader takes the writer's lock for it).

        Raises:
            StoreError: a repair is asked for while another process writes.
        """
        if repair and self.mode == "read":
            return doctor.mended(self.place, self.tables, self.tail)
        return doctor.examine(self.place, self.tables, self.tail, repair=repair, writing=self.mode == "write")

    def _begin(self, window_ms: float, hold: Hold, apart: Apart | None) -> None:
        newest = recover(self.place.journal, self.location)
        number = hold.first(self.place.journal, newest, self.tables)
        self._compactor = Compactor(self.place.journal, self.tables, self.location, hold.check, apart)
        try:
            self._journal = Journal(
                self.place.journal,
                where=self.location,
                number=number,
                window=window_ms / 1000.0,
                seal_bytes=SEAL_BYTES,
                sealed=self._compactor.wake,
                lapsed=lambda: hold.lapsed,
            )
        except BaseException:
            self._compactor.close()
            raise
        self._compactor.wake()

    def _writer(self) -> Journal:
        if self._closed:
            raise StoreError(f"lake {self.location}: is closed; open it again to write")
        if self._journal is None:
            raise StoreError(f"lake {self.location}: is open to read; open it to write first")
        return self._journal
