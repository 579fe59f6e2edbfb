"""What a column and a table are, and the kinds of columns there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from silva.tree import Record

_json_encode = msgspec.json.Encoder().encode
_json_decode = msgspec.json.Decoder().decode
_ZSTD = {b"lance-encoding:compression": b"zstd"}

_OPTIONAL = ("tokens.", "outcome.failure.")
"""Where a value on the way may be None."""

STRINGS = pa.list_(pa.string())


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column.

    `get` takes a record to the stored value; `path` is the field it stores (empty: derived); `read` takes the stored
    value back to the field as plain data; `exact` says whether a stored value, not null, holds the field's value
    exactly. `total` columns hold every value exactly, so that nothing need be checked; where Arrow refuses one, `fits`
    says which values it takes. `key`: its place among the columns that tell one record from another (0: none); without
    it parallel merges may insert a record twice.
    """

    name: str
    type: pa.DataType
    doc: str
    get: Callable[[Any], Any]
    path: str = ""
    read: Callable[[Any], Any] | None = None
    exact: Callable[[Any, Any], bool] | None = None
    fits: Callable[[Any], bool] | None = None
    total: bool = False
    index: bool = False
    compress: bool = False
    key: int = 0

    @property
    def field(self) -> pa.Field:
        """The column as a pyarrow field."""
        if self.key:
            position = {b"lance-schema:unenforced-primary-key:position": b"%d" % self.key}
            return pa.field(self.name, self.type, nullable=False, metadata=position)
        return pa.field(self.name, self.type, metadata=_ZSTD if self.compress else None)


class Table(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One table: its record type, its columns, and whether the first or the last record of a key counts."""

    name: str
    record: type[Record]
    columns: tuple[Column, ...]
    last_wins: bool
    doc: str

    @property
    def schema(self) -> pa.Schema:
        """The columns, then `rest` and `segment`."""
        return pa.schema([*(column.field for column in self.columns), REST, SEGMENT])

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Names of the columns that tell one record from another."""
        return tuple(column.name for column in sorted(self.columns, key=lambda column: column.key) if column.key)

    def column(self, name: str) -> Column | None:
        """The column of that name, or of that field path."""
        return next((column for column in self.columns if name in (column.name, column.path)), None)


REST = pa.field("rest", pa.binary(), metadata=_ZSTD)
"""msgpack of the fields that no column holds exactly; null when none."""
SEGMENT = pa.field("segment", pa.int64())
"""Number of the journal segment the row came from."""


def plain(path: str) -> Callable[[Any], Any]:
    """A getter of the field at `path`; None where a value on the way is None."""
    if not path.startswith(_OPTIONAL):
        return attrgetter(path)
    names = path.split(".")

    def get(record: Any) -> Any:
        for name in names:
            if record is None:
                return None
            record = getattr(record, name)
        return record

    return get


def text(path: str, doc: str, *, name: str = "", index: bool = False, compress: bool = False, key: int = 0) -> Column:
    """A text."""
    return Column(
        name=name or path,
        type=pa.string(),
        doc=doc,
        get=plain(path),
        path=path,
        total=True,
        index=index,
        compress=compress,
        key=key or int(path == "id"),
    )


def integer(path: str, doc: str, *, name: str = "", index: bool = False) -> Column:
    """A whole number; one beyond 64 bits stands in `rest`."""
    return Column(
        name=name or path,
        type=pa.int64(),
        doc=doc,
        get=plain(path),
        path=path,
        fits=lambda value: -(1 << 63) <= value < 1 << 63,
        total=True,
        index=index,
    )


def number(path: str, doc: str, *, name: str = "") -> Column:
    """A number."""
    return Column(name=name or path, type=pa.float64(), doc=doc, get=plain(path), path=path, total=True)


def flag(path: str, doc: str, *, name: str = "") -> Column:
    """Yes or no."""
    return Column(name=name or path, type=pa.bool_(), doc=doc, get=plain(path), path=path, total=True)


def strings(path: str, doc: str, *, name: str = "") -> Column:
    """A list of texts."""
    return Column(name=name or path, type=STRINGS, doc=doc, get=plain(path), path=path, total=True)


def packed(path: str, doc: str, *, name: str = "") -> Column:
    """Any JSON, as text; what that does not hold exactly stands in `rest`."""
    whole = plain(path)

    def get(record: Any) -> str | None:
        value = whole(record)
        return _json_encode(value).decode() if value else None

    def exact(value: Any, stored: str) -> bool:
        return _same(_json_decode(stored), value)

    return Column(
        name=name or path, type=pa.string(), doc=doc, get=get, path=path, read=_json_decode, exact=exact, compress=True
    )


def _same(left: Any, right: Any) -> bool:
    # `==` alone holds 1, 1.0 and True for one value; a reader would not.
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right


def derived(name: str, type: pa.DataType, doc: str, get: Callable[[Any], Any]) -> Column:
    """What is told from several fields, to search and count by."""
    return Column(name=name, type=type, doc=doc, get=get)
