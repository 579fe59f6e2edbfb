"""Chat messages as files write them: `role`, `content`, `tool_calls` as OpenAI has them, arguments as Hugging Face.

    Message ◀─▶ {"role": "assistant", "content": "…", "tool_calls": [{"function": {"name": …, "arguments": {…}}}]}

Reading takes what the many dialects write: content as text or parts, arguments as object or text, reasoning under its
several names. Fields of a message that Silva has no place for come back beside it, to be kept and written again.
"""

from __future__ import annotations

import json
import math
from typing import Any, cast

import msgspec

from silva.tree.formats.images import Loader, reference, resolve
from silva.tree.message import ImagePart, Json, Message, OtherPart, Part, Role, TextPart, ThinkingPart, Tool, ToolCall

_RAW = "_raw"
"""Key of an argument object that holds arguments which are not a JSON object, as the model wrote them."""

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_FIELDS = {"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"}
_REASONING = ("reasoning_content", "reasoning", "thinking")


class _Address(msgspec.Struct, frozen=True):
    url: str


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None
    path: str | None = None
    url: str | None = None
    image: str | None = None
    image_url: _Address | str | None = None
    media_type: str | None = None
    width: int | None = None
    height: int | None = None


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: Json | str | None = None


class _Call(msgspec.Struct, frozen=True):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _ToolFunction(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: Json | None = None


class _ToolEntry(msgspec.Struct, frozen=True):
    function: _ToolFunction


class FieldError(ValueError):
    """A field of a message that cannot be read; `field` is its path inside the message."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def write_message(message: Message, in_parts: bool = False) -> Json:
    """The message as a chat row has it. `in_parts`: content as a list of parts, as rows with images have it.

    A row has one kind of content throughout, for readers that build a column of it refuse text beside lists.
    """
    row: Json = {"role": message.role, "content": _content(message) if in_parts else message.text}
    if message.thinking:
        row["reasoning_content"] = message.thinking
    if message.tool_calls:
        row["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments(c)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        row["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        row["name"] = message.name
    return row


def read_message(value: Any, load: Loader | None, blobs: dict[str, bytes]) -> tuple[Message, Json]:
    """The message of a chat row, and its fields that Silva has no place for. Image bytes are added to `blobs`.

    Raises:
        FieldError: a known field holds what it cannot.
        msgspec.ValidationError: a field has the wrong type; the error names its path.
    """
    row = msgspec.convert(value, _Message)
    role = _ROLES.get(row.role)
    if role is None:
        raise FieldError("role", f"unknown role {row.role!r} (known: {', '.join(_ROLES)})")
    parts: list[Part] = []
    spoken = [text for text in (row.reasoning_content, row.reasoning, row.thinking) if text]
    if spoken:
        parts.append(ThinkingPart(text=spoken[0]))
    if isinstance(row.content, str):
        parts += [TextPart(text=row.content)] if row.content else []
    else:
        for place, part in enumerate(row.content or ()):
            parts.append(_part(part, f"content[{place}]", load, blobs))
    calls = tuple(
        ToolCall(id=c.id or f"call_{place}", name=c.function.name, arguments=arguments_text(c.function.arguments))
        for place, c in enumerate(row.tool_calls or ())
    )
    known = _FIELDS | set(_REASONING)
    other = {key: item for key, item in cast(Json, value).items() if key not in known and item is not None}
    message = Message(role=role, parts=tuple(parts), tool_calls=calls, tool_call_id=row.tool_call_id, name=row.name)
    return message, other


def write_tool(tool: Tool) -> Json:
    """The tool as OpenAI's function calling and Hugging Face's chat templates take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def read_tool(value: Any) -> Tool:
    """The tool of a tools column: `{"type": "function", "function": {…}}`, or the function alone.

    Raises:
        msgspec.ValidationError: not a tool; the error names the path.
    """
    bare = isinstance(value, dict) and "function" not in value
    try:
        found = msgspec.convert({"function": value} if bare else value, _ToolEntry).function
    except UnicodeEncodeError as error:  # JSON may name half a character, and msgspec looks up what it does not know
        raise msgspec.ValidationError(f"holds what a record cannot: {error}") from error
    return Tool(name=found.name, description=found.description or "", parameters=found.parameters or {})


def arguments(call: ToolCall) -> Json:
    """The call's arguments as an object; under `_raw` as text where they are not one."""
    try:
        value = call.parsed()
    except (ValueError, RecursionError):
        return {_RAW: call.arguments}
    return value if _finite(value) else {_RAW: call.arguments}


def arguments_text(value: Json | str | None) -> str:
    """The arguments as raw JSON text, from an object or from text."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value
    raw: Any = value.get(_RAW)
    return raw if isinstance(raw, str) and len(value) == 1 else json.dumps(value, ensure_ascii=False)


def _content(message: Message) -> list[Json]:
    return [_written(part) for part in message.parts if not isinstance(part, ThinkingPart)]


def _written(part: TextPart | ImagePart | OtherPart) -> Json:
    if not isinstance(part, ImagePart):  # a reader of rows refuses kinds it does not know; the extension keeps the part
        return {"type": "text", "text": part.text if isinstance(part, TextPart) else part.label}
    size = {"width": part.width, "height": part.height}
    return {
        "type": "image",
        "path": reference(part),
        "media_type": part.media_type,
        **{name: value for name, value in size.items() if value is not None},
    }


def _part(part: _Part, field: str, load: Loader | None, blobs: dict[str, bytes]) -> Part:
    if part.type in ("text", "input_text", "output_text"):
        if part.text is None:
            raise FieldError(f"{field}.text", "required field is missing")
        return TextPart(text=part.text)
    if part.type not in ("image", "image_url"):
        raise FieldError(f"{field}.type", f"unknown kind of part {part.type!r} (known: text, image, image_url)")
    address = part.image_url.url if isinstance(part.image_url, _Address) else part.image_url
    path = part.path or part.url or part.image or address
    if not path:
        raise FieldError(field, "an image part needs path, url or image_url")
    try:
        image, data = resolve(path, load, part.media_type, part.width, part.height)
    except ValueError as error:
        raise FieldError(field, str(error)) from error
    if data is not None:
        blobs[image.hash] = data
    return image


def _finite(value: Any) -> bool:
    # Python's parser takes NaN, Infinity and 1e999, and integers of any size; no other reader of the file would.
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, dict):
        return all(_finite(item) for item in cast(Json, value).values())
    if isinstance(value, list):
        return all(_finite(item) for item in cast(list[Any], value))
    return True
