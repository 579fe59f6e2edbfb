"""ADP: the Agent Data Protocol, one trajectory of actions and observations a row.

    {"schema_version": "1.5.0", "id": …, "content": [action | observation, …], "details": {…}}

    text_observation (user, environment, system)  ◀─▶ message of the user or a tool      message_action ◀─▶ words
    api_action, code_action (a call each)         ◀─▶ tool call; `description` is the words before the call

Version 1.5.0 is written, earlier ones are read. Actions of one turn stand in a row; only the first has words. Code is
a call of the tool `code_action`. Pages and annotations have no part here: their text is read, the original is kept
under `attributes["adp"]` and written back. The extension stands in `details.silva`: no other field may be added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.adp_write import CODE, KEPT, SYSTEM, VERSION, row_of
from silva.tree.formats.blocks import Reading
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.chat import arguments_text
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Extension, Packer
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import ROOT, Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message, Part, Role, TextPart, ThinkingPart, Tool, ToolCall
from silva.tree.node import Author
from silva.tree.run import Run

EXTENSION = "silva"
_ACTIONS = ("api_action", "code_action", "message_action")
_OBSERVATIONS = ("text_observation", "web_observation", "image_observation")
_ROOT = ("schema_version", "id", "content", "details")
_SOURCES: dict[str, Role] = {
    "user": "user",
    "system": "system",
    "environment": "tool",
    "agent": "assistant",
    "assistant": "assistant",
}


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the first value of a file is a trajectory of this protocol."""
    content: Any = cast(Json, value).get("content") if isinstance(value, dict) else None
    if not isinstance(content, list):
        return False
    items = cast(list[Any], content)
    known = {*_ACTIONS, *_OBSERVATIONS}
    own = any(isinstance(item, dict) and cast(Json, item).get("class_") in known for item in items)
    return own or (not items and "schema_version" in value and "details" in value)


def write(bundles: Iterable[Bundle]) -> Iterator[str]:
    """Lines (each ends in a newline) of the bundles' trajectories.

    Raises:
        FormatError: a trajectory's walk is not in its bundle, or a value has no place in JSON.
    """
    for bundle in bundles:
        packer = Packer(bundle)
        for trajectory, path in packer.walks:
            row = row_of(trajectory, path)
            drafted = _plain(Row(row, KEPT, 0), packer.origin(trajectory), None)
            row["details"] = {**row["details"], EXTENSION: packer.pack(trajectory, path, drafted)}
            yield _line(row)
        if packer.leftover:
            details = {EXTENSION: packer.pack_rest()}
            yield _line({"schema_version": VERSION, "id": f"{bundle.run.id}/rest", "content": [], "details": details})


def read(
    lines: Iterable[str | bytes], name: str = "adp.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trajectory.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run of trajectories that do not name theirs.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    for row in rows(lines, name):
        details = row.row("details")
        if EXTENSION not in details:
            yield _plain(row, Origin(run=Run(id=run)), load)
            continue
        extension = Extension(details.value[EXTENSION], name, row.line)
        yield extension.unpack(_plain(row, extension.origin(), load)) if extension.has_trajectory else extension.rest()


def _plain(row: Row, origin: Origin, load: Loader | None) -> Bundle:
    """The records of a row, its extension left aside."""
    if not isinstance(row.value.get("content"), list):
        raise row.error("content", "must be a list of actions and observations")
    reading = _Reading(load, raw=row.text("schema_version") == VERSION)
    items = row.rows("content")
    for item in items:
        reading.take(item)
    branches = reading.branches
    named = row.items("available_apis") or row.items("available_custom_tools")
    tools = tuple(Tool(name=name) for name in named if isinstance(name, str))
    if branches.twigs and tools:
        branches.replace(0, tools=tools)
    details = {key: value for key, value in row.row("details").value.items() if key != EXTENSION}
    kept: Json = {**row.rest(*_ROOT), "id": row.text("id") or None, "details": details or None}
    attributes: Json = {KEPT: {key: value for key, value in kept.items() if value is not None}}
    return branches.grow(origin, lambda _leaf: Ending(attributes=attributes), row.name, row.line, row.text("id"))


class _Reading:
    """A trajectory while it is read: the last turn, and the calls that wait for an answer.

    `raw`: whether arguments that are no object are told from others, as Silva did not yet in version 1.2.0.
    """

    def __init__(self, load: Loader | None, raw: bool) -> None:
        self._raw = raw
        self.branches = Branches()
        self._blocks = Reading(load, self.branches.blobs)
        self._last = ROOT
        self._acting = False
        self._open: list[str] = []
        self._calls = 0

    def take(self, item: Row) -> None:
        said = item.text("class_")
        if said in ("api_action", "code_action"):
            self._call(item, said)
        elif said == "message_action":
            self._words(item)
        elif said in _OBSERVATIONS:
            self._observed(item, said)
        else:
            known = ", ".join((*_ACTIONS, *_OBSERVATIONS))
            raise item.error("class_", f"unknown class {said!r} (known: {known})" if said else "is missing")

    def _call(self, item: Row, said: str) -> None:
        known = ["class_", "description", "reasoning_content", "reward", "tool_call_id"]
        if said == "code_action":
            given: Json = {"language": item.text("language"), "content": item.text("content")}
            name, known = CODE, [*known, "language", "content"]
        else:
            name, given = item.text("function"), item.row("kwargs").value
            known += ["function", "kwargs"]
            if not name:
                raise item.error("function", "required field is missing")
        own = item.text("tool_call_id") or self._unnamed()
        self._calls += 1
        self._open.append(own)
        call = ToolCall(
            id=own, name=name, arguments=arguments_text(given) if self._raw else json.dumps(given, ensure_ascii=False)
        )
        others, words = item.rest(*known), item.text("description")
        if self._acting and not others and not words and "reasoning_content" not in item and "reward" not in item:
            before = self.branches.twigs[self._last].turn.message
            grown = Message(role="assistant", parts=before.parts, tool_calls=(*before.tool_calls, call))
            self.branches.replace(self._last, message=grown)
            return
        message = Message(role="assistant", parts=_parts(item, words), tool_calls=(call,))
        self._add(item, message, others, Author.POLICY)
        self._acting = True

    def _unnamed(self) -> str:
        while f"call_{self._calls}" in self._open:
            self._calls += 1
        return f"call_{self._calls}"

    def _words(self, item: Row) -> None:
        message = Message(role="assistant", parts=_parts(item, item.text("content")))
        self._add(item, message, item.rest("class_", "content", "reasoning_content", "reward"), Author.POLICY)

    def _observed(self, item: Row, said: str) -> None:
        others = item.rest("class_", "content", "source", "reward", "tool_call_id", "name")
        parts: tuple[Part, ...] = ()
        source = item.text("source") or "environment"
        role = _SOURCES.get(source)
        if role is None:
            raise item.error("source", f"unknown source {source!r} (known: {', '.join(_SOURCES)})")
        if said == "text_observation":
            parts = (TextPart(text=item.text("content")),) if item.text("content") else ()
        elif said == "image_observation":
            parts, others = (self._blocks.picture(item.text("content")),), {**others, "class_": said}
            if isinstance(parts[0], TextPart):
                others["content"] = item.text("content")
        else:
            parts, others = self._page(item), {key: value for key, value in item.value.items() if value is not None}
        call_id, name = item.text("tool_call_id") or None, item.text("name") or None
        if call_id is None and source == "environment" and name == SYSTEM:
            role, name, source = "system", None, "system"  # the protocol has no other place for a system message
        if call_id in self._open:
            self._open.remove(call_id)
        elif call_id is None and role == "tool" and self._open:
            call_id = self._open.pop(0)
        if role == "tool" and call_id is None:
            role, others = "user", {**others, "source": source}  # no call asked for it, so it is no tool message
        elif source not in ("user", "system", "environment"):
            others = {**others, "source": source}
        elif call_id is not None and role != "tool":
            role, others = "tool", {**others, "source": source}
        message = Message(role=role, parts=parts, tool_call_id=call_id, name=name)
        self._add(item, message, others, Author.ENVIRONMENT)

    def _page(self, item: Row) -> tuple[Part, ...]:
        shown = [item.text("url"), item.text("axtree") or item.text("html")]
        parts: list[Part] = [TextPart(text="\n".join(text for text in shown if text))] if any(shown) else []
        path = item.row("image_observation").text("content")
        return (*parts, self._blocks.picture(path)) if path else tuple(parts)

    def _add(self, item: Row, message: Message, others: Json, author: Author) -> None:
        attributes: Json = {KEPT: others} if others else {}
        reward = item.number("reward")
        turn = Turn(message=message, attributes=attributes)
        self._last = self.branches.add(self._last, turn, author=author, reward=reward)
        self._acting = False


def _parts(item: Row, words: str) -> tuple[Part, ...]:
    thought = item.text("reasoning_content")
    thoughts: tuple[Part, ...] = (ThinkingPart(text=thought),) if thought else ()
    return (*thoughts, TextPart(text=words)) if words else thoughts


def _line(row: Json) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise FormatError(KEPT, 0, "", f"{error}; write parquet, which keeps every number") from error
