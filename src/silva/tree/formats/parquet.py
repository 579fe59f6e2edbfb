"""Parquet: every record of a run in one table, exact, and readable by anything that reads Parquet.

    record ─▶ readable columns (kind, ids, text, score …) + `record` (exact bytes of silva.tree.schema) ─▶ file

Reading uses `record` alone, so nothing can be lost, and an older file is migrated like any record. A table without it
but with a `messages` column (what Hugging Face data sets hold) is read row by row as `messages` reads lines.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.errors import MissingError
from silva.tree.formats.bundle import Bundle, described
from silva.tree.formats.errors import FormatError
from silva.tree.formats.images import Loader
from silva.tree.formats.messages import read_value
from silva.tree.message import Json
from silva.tree.node import Node
from silva.tree.run import Run
from silva.tree.schema import AnyRecord, SchemaError, decode, encode
from silva.tree.supervision import Supervision
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory

_ROWS = 8192
_BLOB = "blob"
COLUMNS = {
    "kind": "string",
    "bundle": "int64",
    "id": "string",
    "run_id": "string",
    "tree_id": "string",
    "task_id": "string",
    "parent_id": "string",
    "depth": "int32",
    "slot": "string",
    "env": "string",
    "author": "string",
    "role": "string",
    "text": "string",
    "model": "string",
    "policy_version": "string",
    "reward": "double",
    "status": "string",
    "score": "double",
    "success": "bool",
    "started": "double",
    "record": "binary",
}
"""Name and Arrow type of every column. `bundle` counts bundles in the file, so that a reader gives them as written."""


def write(bundles: Iterable[Bundle]) -> Iterator[bytes]:
    """The file in pieces, to be written one after the other.

    Raises:
        MissingError: pyarrow is not installed.
        FormatError: a record cannot be encoded.
    """
    arrow, parquet = _pyarrow()
    schema = arrow.schema([(name, arrow.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    sink = _Sink()
    writer = parquet.ParquetWriter(arrow.PythonFile(sink, mode="w"), schema, compression="zstd")
    rows: list[Json] = []
    for number, bundle in enumerate(bundles):
        for row in _rows(bundle, number):
            rows.append(row)
            if len(rows) == _ROWS:
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
                rows = []
                yield sink.take()
    if rows:
        writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
    writer.close()
    yield sink.take()


def read(
    data: bytes, name: str = "trees.parquet", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle | FormatError]:
    """The bundles of a file, as they were written; of a foreign table, one for each row, or what is wrong with it.

    Args:
        data: the file's content.
        name: the file as errors name it.
        run: the run of rows that do not name theirs.
        load: gives the bytes of images by their path (foreign tables).

    Raises:
        MissingError: pyarrow is not installed.
        FormatError: not Parquet, or neither kind of table. The line of a row's fault is its number.
    """
    arrow, parquet = _pyarrow()
    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        names = set(file.schema_arrow.names)
        batches = file.iter_batches(batch_size=_ROWS)
        if {"kind", "record", "bundle"} <= names:
            yield from _own(batches, name)
        elif "messages" in names:
            yield from _foreign(batches, name, run, load)
        else:
            problem = "has neither a record column (Silva's) nor a messages column (Hugging Face's)"
            raise FormatError(name, 0, "", problem)
    except arrow.ArrowInvalid as error:
        raise FormatError(name, 0, "", f"not a Parquet file ({' '.join(str(error).split())})") from error
    except OSError as error:  # what Arrow raises for a page that does not decompress
        raise FormatError(name, 0, "", f"is damaged ({' '.join(str(error).split())})") from error


def _own(batches: Any, name: str) -> Iterator[Bundle | FormatError]:
    current, gathered = -1, _Gathered()
    line = 0
    for batch in batches:
        columns: dict[str, list[Any]] = {
            key: batch.column(key).to_pylist() for key in ("kind", "bundle", "id", "record")
        }
        for kind, number, own_id, data in zip(*columns.values(), strict=True):
            line += 1
            if number != current:
                if gathered.begun:
                    yield gathered.bundle()
                current, gathered = number, _Gathered()
            if data is None:
                yield FormatError(name, line, "record", "is empty")
                continue
            if kind == _BLOB:
                gathered.blobs[own_id] = data
                continue
            try:
                gathered.add(decode(data))
            except SchemaError as error:
                yield FormatError(name, line, "record", str(error))
    if gathered.begun:
        yield gathered.bundle()


def _foreign(batches: Any, name: str, run: str, load: Loader | None) -> Iterator[Bundle | FormatError]:
    line = 0
    for batch in batches:
        for row in batch.to_pylist():
            line += 1
            try:
                yield read_value(_without_nulls(row), name, line, run, load)
            except FormatError as error:
                yield error


class _Gathered:
    """The records of one bundle while they come in."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.tasks: list[Task] = []
        self.nodes: list[Node] = []
        self.trajectories: list[Trajectory] = []
        self.supervisions: list[Supervision] = []
        self.blobs: dict[str, bytes] = {}

    @property
    def begun(self) -> bool:
        return self.run is not None

    def add(self, record: AnyRecord) -> None:
        match record:
            case Run():
                self.run = record
            case Task():
                self.tasks.append(record)
            case Node():
                self.nodes.append(record)
            case Trajectory():
                self.trajectories.append(record)
            case Supervision():
                self.supervisions.append(record)

    def bundle(self) -> Bundle:
        return Bundle(
            run=self.run or Run(id=""),
            tasks=tuple(self.tasks),
            trajectories=tuple(self.trajectories),
            nodes=tuple(self.nodes),
            supervisions=tuple(self.supervisions),
            blobs=self.blobs,
        )


class _Sink:
    """A file that only grows, and whose bytes are taken away as they come."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self.closed = False

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._length += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


def _rows(bundle: Bundle, number: int) -> Iterator[Json]:
    if not described(bundle.run):
        yield _row(bundle.run, number)
    for record in bundle.records():
        yield _row(record, number)
    for name, data in bundle.blobs.items():
        yield {"kind": _BLOB, "bundle": number, "id": name, "run_id": bundle.run.id, "record": data}


def _row(record: AnyRecord, number: int) -> Json:
    try:
        data = encode(record)
    except SchemaError as error:
        raise FormatError("parquet", 0, f"{type(record).__name__.lower()} {record.id}", str(error)) from error
    row: Json = {name: getattr(record, name, None) for name in COLUMNS}
    row |= {"kind": type(record).__name__.lower(), "bundle": number, "record": data}
    match record:
        case Node():
            row |= {"author": str(record.author), "role": record.message.role, "text": record.message.text}
        case Trajectory():
            outcome = record.outcome
            row |= {"status": str(outcome.status), "score": outcome.score, "success": outcome.success}
        case Task():
            row |= {"task_id": record.id, "text": record.instruction}
        case Run():
            row |= {"run_id": record.id}
        case Supervision():
            row |= {"parent_id": record.node_id, "text": record.reason}
    return row


def _without_nulls(value: Any) -> Any:
    # Arrow gives every row every key that any row has; a null there means that the row never had it.
    if isinstance(value, dict):
        items = cast(Json, value)
        return {key: _without_nulls(item) for key, item in items.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast(list[Any], value)]
    return value


def _pyarrow() -> tuple[Any, Any]:
    try:
        # By name, for it has no types to check against; and only here, for it takes a quarter of a second.
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingError("parquet needs pyarrow: pip install pyarrow") from error
