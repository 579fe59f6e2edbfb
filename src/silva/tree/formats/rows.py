"""What readers of JSON formats share: lines to objects, objects to typed records, faults to FormatErrors.

line ─▶ parsed ─▶ object ─▶ typed (unknown fields pass, wrong types do not) ─▶ …          row ─▶ json_line ─▶ line
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

import msgspec

from silva.tree.formats.chat import FieldError, read_message
from silva.tree.formats.errors import FormatError, invalid
from silva.tree.formats.images import Loader
from silva.tree.message import Json, Message

T = TypeVar("T")


def rows(lines: Iterable[str | bytes], name: str) -> Iterator[tuple[int, Any]]:
    """The JSON value of every line that is not empty, with its number from 1.

    Raises:
        FormatError: a line that is not JSON.
    """
    for line, text in enumerate(lines, 1):
        if text.strip():
            yield line, parsed(text, name, line)


def parsed(text: str | bytes, name: str, line: int) -> Any:
    """The JSON value of a text.

    Raises:
        FormatError: it is none, or is nested too deep.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(name, line, "", f"not JSON ({error})") from error


def typed(value: Any, kind: type[T], name: str, line: int, field: str = "") -> T:
    """The value as a record; `field` is where it stands in the row.

    Raises:
        FormatError: a required field is missing or one has the wrong type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise inside(field, name, line, error) from error
    except RecursionError as error:
        raise FormatError(name, line, field, "is nested too deep") from error
    except UnicodeEncodeError as error:
        raise FormatError(name, line, field, f"holds what a record cannot: {error}") from error


def message(
    value: Any, name: str, line: int, field: str, load: Loader | None, blobs: dict[str, bytes]
) -> tuple[Message, Json]:
    """A chat message, and its fields that Silva has no place for.

    Raises:
        FormatError: a field of it cannot be read.
    """
    try:
        return read_message(value, load, blobs)
    except FieldError as error:
        raise FormatError(name, line, f"{field}.{error.field}", str(error)) from error
    except msgspec.ValidationError as error:
        raise inside(field, name, line, error) from error
    except UnicodeEncodeError as error:
        raise FormatError(name, line, field, f"holds what a record cannot: {error}") from error


def inside(field: str, name: str, line: int, error: msgspec.ValidationError) -> FormatError:
    """A decoder's error as one of a value that stands at `field`."""
    inner = invalid(name, line, error)
    joint = "" if not field or not inner.field or inner.field.startswith("[") else "."
    return FormatError(name, line, f"{field}{joint}{inner.field}", inner.problem)


def json_line(row: Json, name: str) -> str:
    """The row as one line of JSON.

    Raises:
        FormatError: a number that JSON has no way to write.
    """
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise FormatError(name, 0, "", f"{error}; write parquet, which keeps every number") from error


def filled(row: Json) -> Json:
    """The row without what says nothing: None, and empty text, lists and objects."""
    return {
        key: value for key, value in row.items() if value is not None and value != "" and value != [] and value != {}
    }


def kept_of(attributes: Json, key: str) -> Json:
    """What a foreign file said that has no field of its own."""
    return as_object(attributes.get(key))


def as_object(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return dict(cast(Json, value)) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """The value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
