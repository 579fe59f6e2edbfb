"""JSON as a foreign file holds it: its values with their lines, and objects that know where they stand.

    lines ─▶ documents ─▶ (line, value) … ─▶ Row ─▶ row.text("id"), row.rows("spans") … or line and field at fault

A file is one document (laid out over lines or not), a JSON array of them, or one a line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, cast

from silva.tree.formats.errors import FormatError
from silva.tree.message import Json

_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def without_mark(data: bytes) -> bytes:
    """The bytes as UTF-8 without a byte order mark, which tools on Windows write, and UTF-16 at that."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace").encode("utf-8", errors="replace")
    return data


def documents(lines: Iterable[str | bytes], name: str) -> Iterator[tuple[int, Any]]:
    """The values of a file with their lines (0: the text as a whole).

    Raises:
        FormatError: a line that is not JSON or not UTF-8.
    """
    stream = ((number, decoded(raw, name, number)) for number, raw in enumerate(lines, 1))
    filled = ((number, text) for number, text in stream if text.strip())
    begin, first = next(filled, (0, ""))
    if not begin:
        return
    try:
        value = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        # Not a document by itself, so this is one text laid out over many lines.
        rest = "".join(text if text.endswith("\n") else text + "\n" for _, text in stream)
        yield from _values(parsed(f"{first.rstrip()}\n{rest}", name, begin), 0)
        return
    yield from _values(value, begin)
    for number, text in filled:
        yield from _values(parsed(text, name, number), number)


def rows(lines: Iterable[str | bytes], name: str) -> Iterator[Row]:
    """The objects of a file.

    Raises:
        FormatError: a line that is not JSON, or a value that is not an object.
    """
    for line, value in documents(lines, name):
        if not isinstance(value, dict):
            raise FormatError(name, line, "", f"must be an object, this is {kind(value)}")
        yield Row(cast(Json, value), name, line)


def parsed(text: str, name: str, begin: int) -> Any:
    """The value of a JSON text that begins on line `begin`.

    Raises:
        FormatError: it is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(name, begin + error.lineno - 1, "", f"not JSON ({error.msg})") from error
    except RecursionError as error:
        raise FormatError(name, begin, "", "is nested too deep") from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise FormatError(name, begin, "", f"not JSON ({error})") from error


def decoded(raw: str | bytes, name: str, line: int) -> str:
    """The line as text.

    Raises:
        FormatError: it is not UTF-8.
    """
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(name, line, "", f"not UTF-8 ({error})") from error


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {"list": "a list", "str": "a string", "NoneType": "null", "dict": "an object", "bool": "a truth value"}
    return names.get(type(value).__name__, "a number")


class Row:
    """One object of a file, with its line and the path of the field it stands in. A null counts as absent.

    Every reading method raises FormatError, with line and field, where the field holds something else.
    """

    __slots__ = ("field", "line", "name", "value")

    def __init__(self, value: Json, name: str, line: int, field: str = "") -> None:
        self.value, self.name, self.line, self.field = value, name, line, field

    def __contains__(self, key: str) -> bool:
        return self.value.get(key) is not None

    def error(self, key: str, problem: str) -> FormatError:
        """The fault of one field (or, with an empty key, of the object)."""
        return FormatError(self.name, self.line, self.path(key), problem)

    def path(self, key: str) -> str:
        """The field's path from the document's root."""
        return f"{self.field}.{key}" if self.field and key else self.field or key

    def text(self, key: str) -> str:
        """A text; "" where there is none."""
        value: Any = self.value.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(key, f"must be a text, this is {kind(value)}")
        return value

    def number(self, key: str) -> float | None:
        """A finite number."""
        value: Any = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, str):  # OTLP writes 64-bit integers as text
            try:
                value = float(value)
            except ValueError:
                raise self.error(key, "must be a number, this is a string") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, this is {kind(value)}")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            raise self.error(key, "must be a finite number")
        return found

    def whole(self, key: str) -> int:
        """A count; 0 where there is none."""
        return max(0, min(int(self.number(key) or 0), 2**53))

    def flag(self, key: str) -> bool:
        """A truth value; false where there is none."""
        value: Any = self.value.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"must be true or false, this is {kind(value)}")
        return bool(value)

    def row(self, key: str) -> Row:
        """An object; an empty one where there is none."""
        value: Any = self.value.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.error(key, f"must be an object, this is {kind(value)}")
        return Row(cast(Json, value or {}), self.name, self.line, self.path(key))

    def items(self, key: str) -> list[Any]:
        """A list; an empty one where there is none."""
        value: Any = self.value.get(key)
        if value is not None and not isinstance(value, list):
            raise self.error(key, f"must be a list, this is {kind(value)}")
        return cast(list[Any], value or [])

    def rows(self, key: str) -> list[Row]:
        """A list of objects."""
        found: list[Row] = []
        for place, value in enumerate(self.items(key)):
            if not isinstance(value, dict):
                raise self.error(f"{key}[{place}]", f"must be an object, this is {kind(value)}")
            found.append(Row(cast(Json, value), self.name, self.line, self.path(f"{key}[{place}]")))
        return found

    def moment(self, key: str) -> float:
        """A time as Unix seconds, from ISO 8601 or from seconds or milliseconds; 0 where there is none."""
        value: Any = self.value.get(key)
        if isinstance(value, str):
            try:
                found = datetime.fromisoformat(value.strip())
                return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                raise self.error(key, f"{value[:40]!r} is not ISO 8601") from None
        number = self.number(key) or 0.0
        return number / 1000 if number > 1e11 else number

    def rest(self, *known: str) -> Json:
        """The fields besides the known ones, as far as they say something."""
        return {key: item for key, item in self.value.items() if key not in known and item is not None}

    def inside(self, key: str, value: Any) -> Row:
        """Another object that stands in the field `key`, such as one written there as text."""
        return Row(cast(Json, value) if isinstance(value, dict) else {}, self.name, self.line, self.path(key))

    def unpacked(self, key: str) -> Any:
        """The field's value, parsed where it is JSON written as text."""
        value: Any = self.value.get(key)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise self.error(key, f"not JSON ({error})") from error


def _values(value: Any, line: int) -> Iterator[tuple[int, Any]]:
    items: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    yield from ((line, item) for item in items)
