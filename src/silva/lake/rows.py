"""Rows: records to Arrow tables and back, exactly, by the column specification."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType
from typing import Any

import msgspec
import pyarrow as pa

from silva.errors import StoreError
from silva.lake.column import Column, Table, plain

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_MISSING = object()
_WRONG = (msgspec.MsgspecError, AttributeError, TypeError, UnicodeDecodeError)
"""What bytes raise that are not what was written."""


class _Leaf(msgspec.Struct, frozen=True):
    """A field no column stores: where it stands, how to get it, and the value that need not be written."""

    path: str
    get: Callable[[Any], Any]
    default: Any


def build(
    table: Table, records: Sequence[Any], segments: Sequence[int], between: Callable[[], None] = lambda: None
) -> pa.Table:
    """The records as rows of `table`, each with the number of the segment it came from.

    `between` is called after each column: who builds beside an event loop gives way there.
    """
    rests: list[dict[str, Any] | None] = [None] * len(records)
    arrays: list[pa.Array] = []
    covered = tuple(column.path for column in table.columns if column.path)
    defaults = _defaults(table.record, covered)
    for column in table.columns:
        values = list(map(column.get, records))
        if column.path and not column.total:
            default = defaults.get(column.path, _MISSING)
            for index, whole in enumerate(map(plain(column.path), records)):
                value = values[index]
                if whole is None or (value is None and whole == default):
                    continue
                if value is None or (column.exact is not None and not column.exact(whole, value)):
                    _keep(rests, index, column.path, whole)
        arrays.append(_array(column, values, rests))
        between()
    for leaf in _uncovered(table.record, covered):
        for index, whole in enumerate(map(leaf.get, records)):
            if whole is not leaf.default and whole is not None and whole != leaf.default:
                _keep(rests, index, leaf.path, whole)
        between()
    arrays.append(pa.array([_encode(rest) if rest else None for rest in rests], pa.binary()))
    arrays.append(pa.array(segments, pa.int64()))
    return pa.Table.from_arrays(arrays, schema=table.schema)


def key_of(table: Table, record: Any) -> Any:
    """What tells the record from others of its table: its id, or its id with what else its table's key has."""
    return record.id if len(table.key) == 1 else tuple(getattr(record, name) for name in table.key)


def read(table: Table, rows: pa.Table, leave_out: Callable[[str, str, str], None] | None = None) -> list[Any]:
    """The records in `rows` (columns missing from it, or null, are read from `rest`).

    Args:
        table: whose rows they are.
        rows: all columns, or some.
        leave_out: told of each row that does not hold the record its table promises, which is left out: the table's
            name, the row's id, why.

    Raises:
        StoreError: there is such a row, and nobody to be told of it.
    """
    present = set(rows.column_names)
    bodies: list[dict[str, Any]] = [dict.fromkeys(_nullable(table.record)) for _ in range(rows.num_rows)]
    for column in table.columns:
        if column.path and column.name in present:
            _fill(bodies, column, rows.column(column.name).to_pylist())
    rests = rows.column("rest").to_pylist()
    try:
        for body, rest in zip(bodies, rests, strict=True):
            if rest is not None:
                _put_rest(body, rest)
        return msgspec.convert(bodies, list[table.record])
    except _WRONG as error:
        if leave_out is None:
            raise StoreError(f"table {table.name}: a row cannot be read ({error}); run `silva lake doctor`") from error
    found: list[Any] = []
    for number, (body, rest) in enumerate(zip(bodies, rests, strict=True)):
        try:
            if rest is not None:
                _put_rest(body, rest)
            found.append(msgspec.convert(body, table.record))
        except _WRONG as error:
            leave_out(table.name, str(body.get("id") or f"row {number}"), " ".join(str(error).split()))
    return found


def _fill(bodies: Sequence[dict[str, Any]], column: Column, values: Sequence[Any]) -> None:
    *outer, name = column.path.split(".")
    if column.read is not None:
        values = [None if value is None else column.read(value) for value in values]
    for body, value in zip(bodies, values, strict=True):
        if value is not None:
            for each in outer:
                body = body.setdefault(each, {})
            body[name] = value


def _put_rest(body: dict[str, Any], rest: bytes) -> None:
    for path, value in _decode(rest).items():
        *outer, name = path.split(".")
        _place(body, outer)[name] = value


def _array(column: Column, values: list[Any], rests: list[dict[str, Any] | None]) -> pa.Array:
    try:
        return pa.array(values, column.type)
    except (OverflowError, pa.ArrowInvalid):
        if column.fits is None:
            raise
        for index, value in enumerate(values):
            if value is not None and not column.fits(value):
                values[index] = None
                _keep(rests, index, column.path, value)
        return pa.array(values, column.type)


def _place(body: dict[str, Any], outer: list[str]) -> dict[str, Any]:
    for name in outer:
        body = body.setdefault(name, {})
    return body


def _keep(rests: list[dict[str, Any] | None], index: int, path: str, value: Any) -> None:
    rest = rests[index]
    if rest is None:
        rest = rests[index] = {}
    rest[path] = msgspec.to_builtins(value, builtin_types=(bytes,))


@cache
def _nullable(record: type) -> tuple[str, ...]:
    # Required fields that may be None: a null column leaves no trace of them.
    return tuple(f.name for f in msgspec.structs.fields(record) if f.required and NoneType in typing.get_args(f.type))


@cache
def _defaults(record: type, covered: tuple[str, ...]) -> dict[str, Any]:
    return {path: default for path, _, default in _leaves(record, "", covered)}


@cache
def _uncovered(record: type, covered: tuple[str, ...]) -> tuple[_Leaf, ...]:
    return tuple(
        _Leaf(path, plain(path), default) for path, _, default in _leaves(record, "", covered) if path not in covered
    )


def _leaves(record: type, prefix: str, covered: tuple[str, ...]) -> list[tuple[str, Any, Any]]:
    """Fields of `record` as (path, type, default), going into a nested record only where columns do."""
    found: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(record):
        path = prefix + field.name
        nested = next((t for t in (field.type, *typing.get_args(field.type)) if _is_record(t)), None)
        if nested is not None and path not in covered and any(other.startswith(path + ".") for other in covered):
            found += _leaves(nested, path + ".", covered)
            continue
        default: Any = _MISSING
        if field.default is not msgspec.NODEFAULT:
            default = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        found.append((path, field.type, default))
    return found


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
