"""ShareGPT: one conversation a row, each entry `from` and `value`. What LLaMA-Factory, Axolotl and others train on.

    {"conversations": [{"from": "human", "value": …}, {"from": "function_call", "value": "{…}"}, …],
     "system": "…", "tools": "[{…}]", "images": ["…"], "silva": "…"}

A call is an entry of its own (`function_call`, JSON text, one object or a list), and so is its answer (`observation`).
Thoughts stand before an answer in `<think>`. A pair of `chosen` and `rejected` reads as two branches. Calls have no ids
in this format: they are named by their place. What the row has besides is kept, as `messages` keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.chat import arguments, arguments_text, read_tool, write_tool
from silva.tree.formats.draft import Draft, Origin, Turn, grow
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Extension, Packer
from silva.tree.formats.images import Loader, reference, resolve
from silva.tree.formats.values import Row, documents, kind
from silva.tree.message import ImagePart, Json, Message, Part, Role, TextPart, ThinkingPart, Tool, ToolCall
from silva.tree.node import Node
from silva.tree.run import Run
from silva.tree.trajectory import Trajectory
from silva.tree.tree import tools as tools_of

EXTENSION, KEPT = "silva", "sharegpt"
_KEPT_COLUMNS, _KEPT_FIELDS = "columns", "fields"
_COLUMNS = {"conversations", "system", "tools", "images", EXTENSION}
_PLACE = "<image>"
_SPEAKERS: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "tool": "tool",
}
_NAMES = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}
_THOUGHT = re.compile(r"<think>\n(?P<thought>.*?)\n</think>\n\n(?P<rest>.*)", re.DOTALL)


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the first value of a file is a row of this format."""
    found: Any = cast(Json, value).get("conversations") if isinstance(value, dict) else None
    return isinstance(found, list)


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """Lines (each ends in a newline) of the bundles' trajectories.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a value has no place in JSON.
    """
    for bundle in bundles:
        packer = Packer(bundle)
        for walks in _rows(packer.walks):
            row = _pair(*walks) if len(walks) == 2 else _single(*walks[0])
            drafted = _Row(Row(row, KEPT, 0), None).bundles(*(packer.origin(trajectory) for trajectory, _ in walks))
            packed = [packer.pack(*walk, draft) for walk, draft in zip(walks, drafted, strict=True)]
            row[EXTENSION] = packed[0] if len(packed) == 1 else json.dumps(packed)
            yield _line(row)
        if packer.leftover:
            yield _line({"conversations": [], EXTENSION: packer.pack_rest()})


def read(
    lines: Iterable[str | bytes], name: str = "sharegpt.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each row, two for a pair.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run of rows that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for line, value in documents(lines, name):
        if not isinstance(value, dict):
            raise FormatError(name, line, "", f"a row is an object with the key conversations, this is {kind(value)}")
        row = Row(cast(Json, value), name, line)
        if EXTENSION not in row:
            yield from _Row(row, load).bundles(Origin(run=Run(id=run)))
            continue
        extensions = [Extension(each, name, line) for each in _extensions(row)]
        if not extensions[0].has_trajectory:
            yield extensions[0].rest()
            continue
        drafted = _Row(row, load).bundles(*(extension.origin() for extension in extensions))
        if len(drafted) != len(extensions):
            raise row.error(EXTENSION, f"tells of {len(extensions)} trajectories, the row of {len(drafted)}")
        for extension, draft in zip(extensions, drafted, strict=True):
            yield extension.unpack(draft)


def _extensions(row: Row) -> list[Any]:
    """The extension of a row, one for each branch of a pair."""
    value: Any = row.value[EXTENSION]
    if isinstance(value, str) and value.startswith("["):
        value = row.unpacked(EXTENSION)
    return cast(list[Any], value) if isinstance(value, list) and value else [value]


class _Row:
    """One row while it is read: its pictures and the calls that wait for an answer."""

    def __init__(self, row: Row, load: Loader | None) -> None:
        self._row, self._load = row, load
        self._blobs: dict[str, bytes] = {}
        self._paths = row.items("images")
        self._shown = 0
        self._calls = 0
        self._open: list[ToolCall] = []

    def bundles(self, origin: Origin, other: Origin | None = None) -> list[Bundle]:
        """What the row tells: one bundle, or one for each branch of a pair (`other` is then that of the second)."""
        row = self._row
        if not isinstance(row.value.get("conversations"), list):
            problem = "must be a list of entries" if "conversations" in row else "required field is missing"
            raise row.error("conversations", problem)
        turns: list[Turn] = []
        if row.text("system"):
            turns.append(Turn(message=Message(role="system", parts=(TextPart(text=row.text("system")),))))
            turns[0] = msgspec.structs.replace(turns[0], attributes={KEPT: {"column": "system"}})
        for entry in row.rows("conversations"):
            self._entry(entry, turns)
        columns = row.rest(*_COLUMNS)
        pair = [key for key in ("chosen", "rejected") if isinstance(row.value.get(key), dict)]
        if len(pair) != 2:
            return [self._grown(origin, turns, columns, None)]
        for key in pair:
            columns.pop(key)
        found: list[Bundle] = []
        waiting, calls, shown = list(self._open), self._calls, self._shown
        for key, place in zip(pair, (origin, other or origin), strict=True):
            # Both answer the same prompt, and both count its pictures from where it left off.
            self._open, self._calls, self._shown = list(waiting), calls, shown
            branch = list(turns)
            self._entry(row.row(key), branch)
            found.append(self._grown(place, branch, columns, key))
        return found

    def _grown(self, origin: Origin, turns: list[Turn], columns: Json, preference: str | None) -> Bundle:
        tools = self._tools()
        if turns and tools:
            turns = [msgspec.structs.replace(turns[0], tools=tools), *turns[1:]]
        kept: Json = {_KEPT_COLUMNS: columns} if columns else {}
        said: Json = {"preference": preference} if preference else {}
        unused = self._paths[self._shown :]
        if unused:
            said["images"] = unused
        if said:
            kept[KEPT] = said
        draft = Draft(origin=origin, turns=tuple(turns), attributes=kept, blobs=self._blobs)
        return grow(draft, self._row.name, self._row.line)

    def _entry(self, entry: Row, turns: list[Turn]) -> None:
        key, told = ("from", "value") if "from" in entry or "role" not in entry else ("role", "content")
        speaker = entry.text(key)
        role = _SPEAKERS.get(speaker)
        if role is None:
            known = ", ".join(_SPEAKERS)
            raise entry.error(key, f"unknown speaker {speaker!r} (known: {known})" if speaker else "is missing")
        parts, calls, kept = self._told(entry, told, speaker, role)
        call_id = None
        if role == "tool":
            call_id = self._open.pop(0).id if self._open else None
        self._open += calls
        others = entry.rest(key, told)
        attributes: Json = {_KEPT_FIELDS: others} if others else {}
        if speaker not in (_NAMES[role], "function_call"):
            kept["from"] = speaker
        if key == "role":
            kept["keys"] = "role"
        if kept:
            attributes[KEPT] = kept
        message = Message(role=role, parts=tuple(parts), tool_calls=calls, tool_call_id=call_id)
        if calls and turns and self._continues(turns[-1]) and not parts and not attributes:
            # The words before a call are an entry of their own: both are one message.
            before = turns[-1]
            joined = msgspec.structs.replace(before.message, tool_calls=calls)
            turns[-1] = msgspec.structs.replace(before, message=joined)
            return
        turns.append(Turn(message=message, attributes=attributes))

    def _continues(self, turn: Turn) -> bool:
        return turn.message.role == "assistant" and not turn.message.tool_calls

    def _told(self, entry: Row, key: str, speaker: str, role: Role) -> tuple[list[Part], tuple[ToolCall, ...], Json]:
        text, parts = entry.text(key), list[Part]()
        if role == "assistant" and (found := _THOUGHT.fullmatch(text)):
            parts.append(ThinkingPart(text=found["thought"]))
            text = found["rest"]
        if speaker == "function_call":
            calls = self._called(text)
            if calls is not None:
                return parts, calls, {}
            # Text that is no call stays what it is: words of the model, of a kind that the row names.
            return [*parts, TextPart(text=text)], (), {"from": speaker}
        return parts + self._pictured(text, entry, key), (), {}

    def _called(self, text: str) -> tuple[ToolCall, ...] | None:
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            return None
        items = cast(list[Any], value) if isinstance(value, list) else [value]
        calls: list[ToolCall] = []
        for item in items:
            call = cast(Json, item) if isinstance(item, dict) else {}
            name, given = call.get("name"), call.get("arguments")
            if not isinstance(name, str) or not isinstance(given, dict | str | None):
                return None
            said = arguments_text(cast("Json | str | None", given))
            calls.append(ToolCall(id=f"call_{self._calls + len(calls)}", name=name, arguments=said))
        self._calls += len(calls)
        return tuple(calls) or None

    def _pictured(self, text: str, entry: Row, key: str) -> list[Part]:
        pieces = text.split(_PLACE)
        if len(pieces) == 1 or self._shown >= len(self._paths):
            return [TextPart(text=text)] if text else []
        parts: list[Part] = []
        for place, piece in enumerate(pieces):
            if place and self._shown < len(self._paths):
                parts.append(self._image(self._paths[self._shown], entry, key))
                self._shown += 1
            elif place:
                piece = _PLACE + piece
            if piece:
                parts.append(TextPart(text=piece))
        return parts

    def _image(self, path: Any, entry: Row, key: str) -> ImagePart:
        if not isinstance(path, str):
            raise self._row.error(f"images[{self._shown}]", f"must be a path, this is {kind(path)}")
        try:
            image, data = resolve(path, self._load)
        except ValueError as error:
            raise self._row.error(f"images[{self._shown}]", str(error)) from error
        if data is not None:
            self._blobs[image.hash] = data
        return image

    def _tools(self) -> tuple[Tool, ...]:
        row = self._row
        value: Any = row.unpacked("tools") if row.value.get("tools") else None
        if value is not None and not isinstance(value, list):
            raise row.error("tools", "must be a list of tools")
        found: list[Tool] = []
        for place, entry in enumerate(cast(list[Any], value or [])):
            try:
                found.append(read_tool(entry))
            except msgspec.ValidationError as error:
                raise row.error(f"tools[{place}]", f"is no tool ({error})") from error
        return tuple(found)


Walk: TypeAlias = tuple[Trajectory, tuple[Node, ...]]


def _rows(walks: Sequence[Walk]) -> Iterator[tuple[Walk, ...]]:
    """The walks that stand in one row: a pair of a chosen and a rejected answer to one prompt, else each alone."""
    rejected: dict[tuple[str, ...], list[Walk]] = {}
    for walk in walks:
        if _preference(walk[0]) == "rejected":
            rejected.setdefault(_prompt(walk), []).append(walk)
    paired: set[str] = set()
    rows: dict[str, tuple[Walk, ...]] = {}
    for walk in walks:
        others = rejected.get(_prompt(walk), []) if _preference(walk[0]) == "chosen" else []
        other = next((each for each in others if each[0].id not in paired and _agree(walk, each)), None)
        if other is not None:
            paired.add(other[0].id)
            rows[walk[0].id] = (walk, other)
    for walk in walks:
        if walk[0].id not in paired:
            yield rows.get(walk[0].id, (walk,))


def _preference(trajectory: Trajectory) -> Any:
    given: Any = trajectory.attributes.get(KEPT)
    return cast(Json, given).get("preference") if isinstance(given, dict) else None


def _prompt(walk: Walk) -> tuple[str, ...]:
    return tuple(node.id for node in walk[1][:-1])


def _agree(chosen: Walk, rejected: Walk) -> bool:
    """Whether both answers fit one row: an entry each after a prompt, and the same pictures in them."""
    told = [_last(walk[1]) for walk in (chosen, rejected)] if len(chosen[1]) > 1 and rejected[1] else []
    return bool(told) and all(len(entries) == 1 for entries, _ in told) and told[0][1] == told[1][1]


def _last(path: Sequence[Node]) -> tuple[list[Json], list[str]]:
    images: list[str] = []
    return _entries_of(path[-1], images), images


def _pair(chosen: Walk, rejected: Walk) -> Json:
    row = _row(chosen[1][:-1], chosen[0].attributes)
    for key, walk in (("chosen", chosen), ("rejected", rejected)):
        (row[key],), images = _last(walk[1])
        if images and key == "chosen":
            row["images"] = [*row.get("images", ()), *images]
    return row


def _single(trajectory: Trajectory, path: Sequence[Node]) -> Json:
    # A rejected answer by itself would be an example to follow: it goes into the extension alone.
    return {"conversations": []} if _preference(trajectory) == "rejected" else _row(path, trajectory.attributes)


def _row(path: Sequence[Node], attributes: Json) -> Json:
    columns: Any = attributes.get(_KEPT_COLUMNS)
    row: Json = {**cast(Json, columns)} if isinstance(columns, dict) else {}
    for key in _COLUMNS | {"chosen", "rejected"}:
        row.pop(key, None)
    entries: list[Json] = []
    images: list[str] = []
    for place, node in enumerate(path):
        given: Any = node.attributes.get(KEPT)
        kept = cast(Json, given) if isinstance(given, dict) else {}
        if place == 0 and kept.get("column") == "system" and node.message.text:
            row["system"] = node.message.text
            continue
        entries += _entries_of(node, images)
    row["conversations"] = entries
    tools = tools_of(path)
    if tools:
        row["tools"] = json.dumps([write_tool(tool)["function"] for tool in tools], ensure_ascii=False)
    if images:
        row["images"] = images
    return row


def _entries_of(node: Node, images: list[str]) -> list[Json]:
    given, other = node.attributes.get(KEPT), node.attributes.get(_KEPT_FIELDS)
    kept = cast(Json, given) if isinstance(given, dict) else {}
    return _entries(node.message, kept, cast(Json, other) if isinstance(other, dict) else {}, images)


def _entries(message: Message, kept: Json, fields: Json, images: list[str]) -> list[Json]:
    speaker, told = ("role", "content") if kept.get("keys") == "role" else ("from", "value")
    text = ""
    for part in message.parts:
        if isinstance(part, ImagePart):
            images.append(reference(part))
            text += _PLACE
        elif isinstance(part, TextPart):
            text += ("\n" if text and not text.endswith(_PLACE) else "") + part.text
    thought = f"<think>\n{message.thinking}\n</think>\n\n" if message.thinking and message.role == "assistant" else ""
    said: Any = kept.get("from")
    own = said if isinstance(said, str) and _SPEAKERS.get(said) == message.role else _NAMES[message.role]
    calls = [{"name": call.name, "arguments": arguments(call)} for call in message.tool_calls]
    if not calls:
        return [{**fields, speaker: own, told: thought + text}]
    value = json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)
    if not text:
        return [{**fields, speaker: "function_call", told: thought + value}]
    return [{**fields, speaker: own, told: thought + text}, {speaker: "function_call", told: value}]


def _line(row: Json) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise FormatError(KEPT, 0, "", f"{error}; write parquet, which keeps every number") from error
