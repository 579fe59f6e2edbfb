"""Messages + tools JSONL: the row that TRL and Hugging Face read, one trajectory a line.

    {"messages": [{"role": …}, …], "tools": [{"type": "function", …}], "silva": "…"}

`silva` is the extension: one JSON text (not an object, so that a column of it loads anywhere) with all that the other
two cannot say. A line of a stranger has none; its further columns are kept on the trajectory and written again.
A bundle without any trajectory is one line with no messages, which no trainer learns from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from silva.tree.formats.blocks import BLOCKS, Reading
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.chat import FieldError, read_message, read_tool, write_message, write_tool
from silva.tree.formats.detection import is_messages
from silva.tree.formats.draft import Draft, Origin, Turn, grow
from silva.tree.formats.errors import FormatError, invalid
from silva.tree.formats.extension import Extension, Packer
from silva.tree.formats.images import Loader
from silva.tree.formats.values import Row
from silva.tree.message import ImagePart, Json, Message, Tool
from silva.tree.node import Node
from silva.tree.run import Run
from silva.tree.tree import tools as tools_of

EXTENSION = "silva"
_COLUMNS = {"messages", "tools", EXTENSION}
_KEPT_COLUMNS, _KEPT_FIELDS = "columns", "fields"


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """Lines (each ends in a newline) of the bundles' trajectories.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a value has no place in JSON.
    """
    for bundle in bundles:
        packer = Packer(bundle)
        for trajectory, path in packer.walks:
            row = _row(path, trajectory.attributes)
            drafted = read_row(row, packer.origin(trajectory))
            row[EXTENSION] = packer.pack(trajectory, path, drafted)
            yield _line(row)
        if packer.leftover:
            yield _line({"messages": [], "tools": [], EXTENSION: packer.pack_rest()})


def read(
    lines: Iterable[str | bytes], name: str = "messages.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each line.

    Args:
        lines: the file's lines, cut at newlines only; empty ones are passed over.
        name: the file as errors name it.
        run: the run of lines that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for line, text in enumerate(lines, 1):
        if text.strip():
            yield _read_line(text, name, line, run, load)


def read_row(
    row: Json, origin: Origin, name: str = "messages.jsonl", line: int = 0, load: Loader | None = None
) -> Bundle:
    """The records a row grows into, its extension left aside.

    Raises:
        FormatError: with the line and the field.
    """
    rows: Any = row.get("messages")
    if not isinstance(rows, list):
        problem = "required field is missing" if rows is None else "must be a list of messages"
        raise FormatError(name, line, "messages", problem)
    tools = _tools(row.get("tools"), name, line)
    blobs: dict[str, bytes] = {}
    turns: list[Turn] = []
    for place, value in enumerate(cast(list[Any], rows)):
        field = f"messages[{place}]"
        for message, other in _messages(value, field, name, line, load, blobs):
            attributes: Json = {_KEPT_FIELDS: other} if other else {}
            turns.append(Turn(message=message, tools=None if turns else tools, attributes=attributes))
    columns = {key: value for key, value in row.items() if key not in _COLUMNS}
    kept: Json = {_KEPT_COLUMNS: columns} if columns else {}
    return grow(Draft(origin=origin, turns=tuple(turns), attributes=kept, blobs=blobs), name, line)


def _messages(
    value: Any, field: str, name: str, line: int, load: Loader | None, blobs: dict[str, bytes]
) -> list[tuple[Message, Json]]:
    """What one message of a row tells: itself, and its answers of tools apart where it is in Anthropic's form."""
    if _in_blocks(value):
        said = Reading(load, blobs).chat(Row(cast(Json, value), name, line, field))
        return [(each.message, each.kept) for each in said]
    try:
        return [read_message(value, load, blobs)]
    except FieldError as error:
        raise FormatError(name, line, f"{field}.{error.field}", str(error)) from error
    except msgspec.ValidationError as error:
        raise _inside(field, name, line, error) from error


def _in_blocks(value: Any) -> bool:
    content: Any = cast(Json, value).get("content") if isinstance(value, dict) else None
    if not isinstance(content, list):
        return False
    kinds = {cast(Json, part).get("type") for part in cast(list[Any], content) if isinstance(part, dict)}
    return bool(kinds & BLOCKS)


def read_value(row: Any, name: str, line: int, run: str, load: Loader | None) -> Bundle:
    """The records of one row that is already an object, extension and all.

    Raises:
        FormatError: with the line and the field.
    """
    if not isinstance(row, dict):
        if not is_messages(b"", row):
            raise FormatError(name, line, "", "a row is an object with the key messages")
        row = {"messages": row}
    row = cast(Json, row)
    given = row.get(EXTENSION)
    if given is None:
        return read_row(row, Origin(run=Run(id=run)), name, line, load)
    extension = Extension(given, name, line)
    if not extension.has_trajectory:
        return extension.rest()
    return extension.unpack(read_row(row, extension.origin(), name, line, load))


def _read_line(text: str | bytes, name: str, line: int, run: str, load: Loader | None) -> Bundle:
    try:
        row = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(name, line, "", f"not JSON ({error})") from error
    return read_value(row, name, line, run, load)


def _row(path: Sequence[Node], attributes: Json) -> Json:
    messages: list[Json] = []
    pictured = any(isinstance(part, ImagePart) for node in path for part in node.message.parts)
    for node in path:
        kept: Any = node.attributes.get(_KEPT_FIELDS)
        others = cast(Json, kept) if isinstance(kept, dict) else {}
        messages.append({**others, **write_message(node.message, pictured)})
    columns: Any = attributes.get(_KEPT_COLUMNS)
    row: Json = {**cast(Json, columns)} if isinstance(columns, dict) else {}
    row["messages"] = messages
    row["tools"] = [write_tool(tool) for tool in tools_of(path)]
    return row


def _tools(value: Any, name: str, line: int) -> tuple[Tool, ...] | None:
    if isinstance(value, str):
        # TRL lets the column be JSON text, since tools of different shapes do not fit one Arrow column.
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise FormatError(name, line, "tools", f"not JSON ({error})") from error
    if value is not None and not isinstance(value, list):
        raise FormatError(name, line, "tools", "must be a list of tools")
    found: list[Tool] = []
    for place, entry in enumerate(cast(list[Any], value or [])):
        try:
            found.append(read_tool(entry))
        except msgspec.ValidationError as error:
            raise _inside(f"tools[{place}]", name, line, error) from error
    return tuple(found) or None


def _inside(field: str, name: str, line: int, error: msgspec.ValidationError) -> FormatError:
    inner = invalid(name, line, error)
    joint = "" if inner.field.startswith("[") or not inner.field else "."
    return FormatError(name, line, f"{field}{joint}{inner.field}", inner.problem)


def _line(row: Json) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise FormatError("messages", 0, "", f"{error}; write parquet, which keeps every number") from error
