"""Moving what is old to the cold tier, and letting go of what nobody is to keep.

    finished runs, and raw arrivals, older than … ─▶ merged into the cold lake's tables ─▶ looked for there, id by id
      ─▶ only then deleted here

A kill anywhere leaves a row in one tier or in both, never in none. Doing it again adds nothing, because ids are merged.
Unit of a move is a run, with its tasks, nodes and their vectors, trajectories and judgements; runs themselves, and
images, are copied and stay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from silva.errors import StoreError, UsageError
from silva.lake import blobs
from silva.lake.column import Table
from silva.lake.columns import ARRIVALS, NODES, RUNS, SUPERVISIONS, TASKS, TRAJECTORIES
from silva.lake.filters import field, literal
from silva.lake.lake import Lake
from silva.lake.reader import stored_ids
from silva.lake.search import drop_vectors, move_vectors
from silva.lake.sql import query
from silva.lake.tables import Tables
from silva.lake.tail import Tail
from silva.lake.tiers import FILE, cold_location
from silva.tree import ImagePart, Record, Run

OWNED = (TASKS, NODES, SUPERVISIONS, TRAJECTORIES)
"""What a run owns; its trajectories go last, so that one that is found has its nodes."""
ASSEMBLED = "assembled"
_RUNS, _ROWS = 50, 20_000


class Moved(Record, frozen=True, kw_only=True):
    """What was moved or let go, or would be: runs, and rows by table."""

    runs: tuple[str, ...] = ()
    rows: dict[str, int] = msgspec.field(default_factory=dict[str, int])


def old_runs(lake: Lake, seconds: float, where: str = "") -> list[Run]:
    """The runs that ended so long ago.

    Args:
        lake: the lake.
        seconds: how long.
        where: a condition on the run besides, as `silva lake query --where` takes it.
    """
    from silva.lake.where import parse

    before = time.time() - seconds
    found = lake.runs(where=parse(where) if where else None)
    return [run for run in found if 0 < run.finished < before]


def move(lake: Lake, cold: str, seconds: float, *, dry: bool = False) -> Moved:
    """Move what is older than so many seconds to the cold lake.

    Args:
        lake: open to write.
        cold: its location; "" is the one it has.
        seconds: how old.
        dry: only say what would be moved.

    Raises:
        UsageError: it has no cold tier, or another one.
        StoreError: a tier cannot be written; nothing is lost.
    """
    known = cold_location(lake.place)
    if known and cold and cold.rstrip("/") != known.rstrip("/"):
        raise UsageError(f"lake {lake.location}: its cold tier is {known}; a lake has one")
    cold = cold or known
    if not cold:
        raise UsageError(f"lake {lake.location}: has no cold tier yet; give --to s3://BUCKET/PREFIX or a folder")
    if not dry:
        lake.compact()
    runs = old_runs(lake, seconds)
    conditions = list(_conditions(runs, time.time() - seconds))
    near = lake.tables
    counted: dict[str, int] = {}
    if dry:
        for table, condition in conditions:
            counted[table.name] = counted.get(table.name, 0) + _count(near, lake.tail, table, condition)
        return Moved(runs=tuple(run.id for run in runs), rows=counted)
    with Lake.open(cold, "write") as far:
        if not known:  # readers look there before anything is
            lake.place.write(FILE, msgspec.json.encode({"cold": cold}))
        if runs:
            far.append_sync(runs)
        _copy_images(lake, far, runs)
        for table, condition in conditions:
            counted[table.name] = counted.get(table.name, 0) + _moved(near, far.tables, table, condition)
        far.compact()
        far.optimize()
    if any(counted.values()):
        lake.optimize()
    return Moved(runs=tuple(run.id for run in runs), rows=counted)


def retain(lake: Lake, seconds: float, *, where: str = "", arrivals: bool = False, dry: bool = False) -> Moved:
    """Let go, for good and in both tiers, of runs that ended so long ago; or of raw arrivals that are so old and were
    made into trajectories.

    Args:
        lake: open to write.
        seconds: how old.
        where: only runs that meet this condition.
        arrivals: the raw arrivals and not runs.
        dry: only say what would go.

    Raises:
        StoreError: a tier cannot be written.
    """
    if not dry:
        lake.compact()
    before = time.time() - seconds
    location = cold_location(lake.place)
    runs = [] if arrivals else old_runs(lake, seconds, where)
    conditions = list(_made_before(lake, before)) if arrivals else list(_conditions(runs, 0.0))
    if runs:
        conditions += [(RUNS, f"id in ({_listed([run.id for run in runs])})")]
    counted: dict[str, int] = {}

    def let_go(tables: Tables, tail: Tail | None) -> None:
        for table, condition in conditions:
            number = _count(tables, tail, table, condition)
            counted[table.name] = counted.get(table.name, 0) + number
            if number and not dry:
                if table is NODES:
                    drop_vectors(tables, _ids(tables, condition))
                tables.delete(table.name, condition)

    # The cold tier first: what is still near then is found again by who does this once more after a kill.
    if location:
        with Lake.open(location, "read" if dry else "write") as far:
            let_go(far.tables, None)
    let_go(lake.tables, lake.tail)
    if not dry and any(counted.values()):
        lake.optimize()
    return Moved(runs=tuple(run.id for run in runs), rows=counted)


def _conditions(runs: list[Run], arrived_before: float) -> Iterator[tuple[Table, str]]:
    """What is old, table by table."""
    names = [run.id for run in runs]
    for start in range(0, len(names), _RUNS):
        for table in OWNED:
            yield table, f"run_id in ({_listed(names[start : start + _RUNS])})"
    if arrived_before:
        yield ARRIVALS, ((field("at") < arrived_before) & (field("kind") != ASSEMBLED)).sql(ARRIVALS)


def _made_before(lake: Lake, before: float) -> Iterator[tuple[Table, str]]:
    """Raw arrivals, older than a moment, of sessions that were made after the last of them came."""
    rows = lake.sql(
        'with told as (select trace, max(conversation) as conversation, count(*) as n, max("at") as last from arrivals '
        "where kind <> 'assembled' group by trace), sessions as (select coalesce(nullif(conversation, ''), trace) as "
        "key, list(trace) as traces, sum(n) as n, max(last) as last from told group by 1), notes as (select "
        "conversation as key, max(started) as n from arrivals where kind = 'assembled' group by 1) "
        f"select traces from sessions join notes using (key) where notes.n >= sessions.n and last < {before!r}"
    ).to_pylist()
    traces = sorted(trace for row in rows for trace in row["traces"])
    for start in range(0, len(traces), 500):
        yield ARRIVALS, f"kind <> 'assembled' and trace in ({_listed(traces[start : start + 500])})"


def _moved(near: Tables, far: Tables, table: Table, condition: str) -> int:
    """Move the rows of a table that meet a condition; how many."""
    found = near.select(table.name, condition)
    if found is None or not found.num_rows:
        return 0
    if table is NODES:
        move_vectors(near, far, _ids(near, condition))
    for start in range(0, found.num_rows, _ROWS):
        rows = _whole(table, found.slice(start, _ROWS))
        far.merge(table, rows)
        ids = rows.column("id").to_pylist()
        if missing := set(ids) - stored_ids(far, table, ids):
            raise StoreError(f"table {table.name}: {len(missing)} rows are not in the cold tier; nothing was deleted")
    near.delete(table.name, condition)
    return found.num_rows


def _whole(table: Table, rows: pa.Table) -> pa.Table:
    """The rows with every column that the table has today."""
    for name in table.schema.names:
        if name not in rows.column_names:
            wanted = table.schema.field(name)
            empty = pa.array([""] * rows.num_rows) if name in table.key else pa.nulls(rows.num_rows, wanted.type)
            rows = rows.append_column(name, empty)
    return rows.select(table.schema.names).cast(table.schema)


def _copy_images(lake: Lake, far: Lake, runs: list[Run]) -> None:
    """Copy the images that nodes of the runs show."""
    done: set[str] = set()
    for run in runs:
        for node in lake.nodes(run_id=run.id):
            for part in node.message.parts:
                if isinstance(part, ImagePart) and part.hash not in done:
                    done.add(part.hash)
                    if blobs.has(lake.place, part.hash):
                        blobs.put(far.place, lake.get_blob(part.hash))


def _count(tables: Tables, tail: Tail | None, table: Table, condition: str) -> int:
    return query(f"select count(*) as n from {table.name} where {condition}", tables, tail).to_pylist()[0]["n"]


def _ids(tables: Tables, condition: str) -> list[str]:
    rows = tables.select(NODES.name, condition, columns=["id"])
    return [] if rows is None else rows.column("id").to_pylist()


def _listed(names: list[str]) -> str:
    return ", ".join(literal(name) for name in names)
