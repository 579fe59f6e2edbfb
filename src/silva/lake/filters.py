"""Typed filters: conditions on a table's columns (`silva.lake.where` reads them from a line of text).

field("outcome.score") >= 0.5          (field("env") == "bfcl") & ~field("boundary").is_null()
parse("score >= 0.5 and env = 'bfcl'")
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa

from silva.errors import UsageError
from silva.lake.column import Table

Value: TypeAlias = str | int | float | bool
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


class Filter(msgspec.Struct, frozen=True):
    """A condition. Combine with `&`, `|` and `~`; `sql(table)` renders it for Lance and DuckDB alike."""

    def __and__(self, other: Filter) -> Filter:
        return _Joined("and", self, other)

    def __or__(self, other: Filter) -> Filter:
        return _Joined("or", self, other)

    def __invert__(self) -> Filter:
        return _Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth value: combine filters with & | ~ instead of and, or, not")

    def sql(self, table: Table) -> str:
        """The condition as SQL over the columns of `table`.

        Raises:
            UsageError: the table has no such column, or the value does not fit its type.
        """
        raise TypeError(f"{type(self).__name__} is no condition")


class _Joined(Filter, frozen=True):
    word: Literal["and", "or"]
    left: Filter
    right: Filter

    def sql(self, table: Table) -> str:
        return f"({self.left.sql(table)} {self.word} {self.right.sql(table)})"


class _Not(Filter, frozen=True):
    inner: Filter

    def sql(self, table: Table) -> str:
        return f"(not {self.inner.sql(table)})"


class Compared(Filter, frozen=True):
    """A column compared with a value."""

    name: str
    operator: Operator
    value: Value

    def sql(self, table: Table) -> str:
        return _compared(table, self.name, self.operator, self.value)


class _In(Filter, frozen=True):
    name: str
    values: tuple[Value, ...]

    def sql(self, table: Table) -> str:
        if not self.values:
            _column(table, self.name, None)
            return "(1 = 0)"
        if all(isinstance(value, str) for value in self.values):
            columns = {_column(table, self.name, value) for value in self.values}
            return f"({columns.pop()} in ({', '.join(literal(value) for value in self.values)}))"
        return f"({' or '.join(_compared(table, self.name, '=', value) for value in self.values)})"


class _Null(Filter, frozen=True):
    name: str

    def sql(self, table: Table) -> str:
        return f"({_column(table, self.name, None)} is null)"


class _Contains(Filter, frozen=True):
    name: str
    value: str

    def sql(self, table: Table) -> str:
        column = _column(table, self.name, None)
        found = table.column(self.name)
        if found is not None and pa.types.is_list(found.type):
            if not pa.types.is_string(found.type.value_type):
                raise UsageError(f"{table.name}.{found.name} is no list of strings: use a column such as tool_names")
            return f"array_has({column}, {literal(self.value)})"
        _column(table, self.name, self.value)
        return f"contains({column}, {literal(self.value)})"


class Field:
    """A column to compare, by its name or by the field path it stores."""

    __slots__ = ("name",)
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, value: Value | None) -> Filter:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Null(self.name) if value is None else Compared(self.name, "=", value)

    def __ne__(self, value: Value | None) -> Filter:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Not(_Null(self.name)) if value is None else Compared(self.name, "!=", value)

    def __lt__(self, value: Value) -> Filter:
        return Compared(self.name, "<", value)

    def __le__(self, value: Value) -> Filter:
        return Compared(self.name, "<=", value)

    def __gt__(self, value: Value) -> Filter:
        return Compared(self.name, ">", value)

    def __ge__(self, value: Value) -> Filter:
        return Compared(self.name, ">=", value)

    def is_in(self, values: Iterable[Value]) -> Filter:
        """The column's value is one of these."""
        return _In(self.name, tuple(values))

    def is_null(self) -> Filter:
        """The column has no value."""
        return _Null(self.name)

    def contains(self, value: str) -> Filter:
        """The text contains these characters; or the list this string."""
        return _Contains(self.name, value)


def field(name: str) -> Field:
    """The column `name` (`score`), or the column that stores the field at that path (`outcome.score`)."""
    return Field(name)


def literal(value: Value) -> str:
    """The value as SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{value} cannot be compared with: use a finite number")
    return repr(value)


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _compared(table: Table, name: str, operator: Operator, value: Value) -> str:
    """A comparison that means the same to Lance and to DuckDB, each of which has its own idea of what a number of
    another kind is turned into: an integer column is compared with integers, a column of floats with floats."""
    column, spec = _column(table, name, value), table.column(name)
    assert spec is not None
    if pa.types.is_integer(spec.type) and not isinstance(value, str | bool):
        return _integer(column, operator, value)
    if pa.types.is_floating(spec.type) and not isinstance(value, str | bool):
        number = _float(value)
        # Adding nothing makes zero of a negative zero, which one of them holds for less.
        return f"(({column} + 0e0) {operator} {number})"
    return f"({column} {operator} {literal(value)})"


def _integer(column: str, operator: Operator, value: int | float) -> str:
    literal(value)  # refuses what is no finite number
    whole = math.floor(value)
    if whole != value:  # between two integers: none equals it
        if operator in ("=", "!="):
            return _always(column, operator == "!=")
        operator, whole = ("<=", whole) if operator in ("<", "<=") else (">", whole)
    if not _LEAST <= whole <= _MOST:
        below = whole > 0  # every value there is lies below it
        return _always(column, operator == "!=" or ((operator in ("<", "<=")) == below and operator != "="))
    return f"({column} {operator} {whole})"


def _always(column: str, truth: bool) -> str:
    """True, or false, of every value; of none where there is none."""
    return f"({column} {'=' if truth else '<'} {column})"


def _float(value: int | float) -> str:
    literal(value)
    try:
        written = repr(float(value) + 0.0)
    except OverflowError:
        raise UsageError(f"{value} is too large to be compared with") from None
    return written if "e" in written else f"{written}e0"  # without it DuckDB reads a decimal


def _column(table: Table, name: str, value: Value | None) -> str:
    column = table.column(name)
    if column is None:
        known = [c.name for c in table.columns]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
        raise UsageError(f"{table.name} has no column {name}: {hint}")
    if value is not None:
        kind = column.type
        fits = (
            (isinstance(value, str) and pa.types.is_string(kind))
            or (isinstance(value, bool) and pa.types.is_boolean(kind))
            or (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
            )
        )
        if not fits:
            raise UsageError(f"{table.name}.{column.name} is {kind}: {value!r} cannot be compared with it")
    return f'"{column.name}"' if column.name in {"index", "by", "at", "value"} else column.name
