"""Rows as plain objects, and plain objects as a table that SQL can be asked of.

    Row ─▶ flat ─▶ {id, kind, source, prompt, reply, text, turns, score, …, fields of its source}
    objects ─▶ asked("select … from result") ─▶ objects          (DuckDB, locked: no files, no network)

Conditions of tools, checks of pilots, derived code and tables in files all see a row in this one shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import msgspec
import pyarrow as pa

from silva.curate.audit.finding import Finding
from silva.curate.rows import Kind, Row
from silva.elf.artefact import Artefact, Figures, File, Findings, Pairs, Parts, Result, Rows, Scores, Skills, Table
from silva.elf.artefact import Trajectories as Chosen
from silva.errors import UsageError
from silva.lake.matching import locked
from silva.tree import Json


def flat(row: Row) -> Json:
    """A row as a plain object; fields of its source that have a column's name are left out."""
    text = row.text
    found: Json = {
        "id": row.id,
        "kind": str(row.kind),
        "source": row.source,
        "label": row.label if isinstance(row.label, str | int | float | bool | None) else str(row.label),
        "prompt": row.prompt,
        "reply": row.reply,
        "text": text,
        "chars": len(text),
        "words": len(text.split()),
        "turns": sum(node.message.role == "assistant" for node in row.nodes),
    }
    ended = row.trajectory
    if ended is not None:
        found |= {"run_id": ended.run_id, "env": ended.env, "task_id": ended.task_id, "model": ended.model}
        found |= {"status": str(ended.outcome.status), "score": ended.outcome.score}
        found |= {"success": ended.outcome.success, "safety": ended.outcome.safety}
    for name, value in row.data.items():
        if name not in found:
            plain = value if isinstance(value, str | int | float | bool | None) else msgspec.json.encode(value).decode()
            found[str(name)] = plain
    return found


def objects(artefact: Artefact) -> list[Json]:
    """What an artefact holds as plain objects: one a row, score, finding …"""
    if isinstance(artefact, Rows):
        return [flat(row) for row in artefact.rows]
    if isinstance(artefact, Table):
        return list(artefact.rows)
    if isinstance(artefact, Scores):
        return [{"id": key, "score": value, "scorer": artefact.scorer} for key, value in artefact.values.items()]
    if isinstance(artefact, Findings):
        return [_scalars(each) for each in artefact.found]
    if isinstance(artefact, Chosen):
        return [msgspec.structs.asdict(each) for each in artefact.dataset.entries]
    if isinstance(artefact, Parts):
        return [
            msgspec.structs.asdict(e) | {"part": name} for name, part in artefact.parts.items() for e in part.entries
        ]
    if isinstance(artefact, Pairs):
        return [msgspec.structs.asdict(each) for each in artefact.pairs]
    if isinstance(artefact, Figures):
        return [_scalars(artefact.figures)]
    if isinstance(artefact, Skills):
        return [_scalars(each) for each in artefact.skills]
    if isinstance(artefact, Result):
        return [_scalars(artefact.result) | {"status": artefact.status}]
    if isinstance(artefact, File):
        return [msgspec.to_builtins(artefact)]
    return []


def table(artefact: Artefact) -> pa.Table:
    """What an artefact holds, for SQL: an empty one has the columns that all of its type have."""
    if rows := objects(artefact):
        return arrow(rows)
    like: Json = {}
    if isinstance(artefact, Rows):
        like = flat(Row(id="", kind=Kind.TEXT, source="", nodes=()))
    elif isinstance(artefact, Findings):
        like = msgspec.structs.asdict(Finding(row_id="", risk="", checker="", version="", p=0.0)) | {"row": ""}
    elif isinstance(artefact, Scores):
        like = {"id": "", "score": 0.0, "scorer": ""}
    return arrow([like] if like else []).slice(0, 0)


def arrow(rows: Sequence[Json]) -> pa.Table:
    """Plain objects as a table; a column of several types is one of texts."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            columns[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(columns) if columns else pa.table({"id": pa.array([], pa.string())})


def asked(query: str, rows: Sequence[Json] | pa.Table, name: str = "result") -> list[Json]:
    """The answer to one SELECT over objects, or over a table of them.

    Args:
        query: DuckDB's SQL over the table `name`.
        rows: the table.
        name: what the table is called.

    Raises:
        UsageError: DuckDB refuses it.
    """
    import duckdb

    with closing(locked()) as connection:
        connection.register(name, rows if isinstance(rows, pa.Table) else arrow(rows))
        try:
            return connection.sql(query).to_arrow_table().to_pylist()
        except (duckdb.Error, AttributeError) as error:  # a statement that gives nothing gives no relation
            raise UsageError(
                f"sql: {' '.join(str(error).split(chr(10) + chr(10) + 'LINE')[0].split())[:300]}"
            ) from error


def meeting(condition: str, rows: Sequence[Json]) -> list[int]:
    """The places of objects that meet a condition.

    Raises:
        UsageError: it is no condition on them; the line names their columns.
    """
    placed = [row | {"_place": place} for place, row in enumerate(rows)]
    try:
        found = asked(f"select _place from rows where ({condition}) order by _place", placed, "rows")
    except UsageError as error:
        names = ", ".join(dict.fromkeys(name for row in rows[:100] for name in row)) or "none"
        raise UsageError(f"condition {condition!r}: {error} (columns: {names[:400]})") from error
    return [int(each["_place"]) for each in found]


def _scalars(value: Json) -> Json:
    return {
        str(key): each if isinstance(each, str | int | float | bool | None) else msgspec.json.encode(each).decode()
        for key, each in value.items()
    }


def first(rows: Iterable[Any], count: int) -> list[Any]:
    """The first `count` of something; all where it is 0."""
    return [each for place, each in enumerate(rows) if not count or place < count]
