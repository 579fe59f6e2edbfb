"""The messages of an Anthropic body: content blocks to messages.

user      ─▶ tool_result blocks ─▶ a tool message each; then text and image blocks ─▶ one user message
assistant ─▶ thinking, redacted_thinking, text ─▶ parts; tool_use ─▶ tool calls
system    ─▶ system message (in the midst of a conversation)
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from silva.models.anthropic import blocks
from silva.models.anthropic.marks import TOOL_ERROR
from silva.models.carried import Open, joined, nested
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.images import Images, of_base64, of_url
from silva.models.gateway.dialects.reading import Name, decoded
from silva.tree import Json, Message, Part, TextPart, ToolCall


class _Source(Open):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Shown(Open):
    """A content block that shows something."""

    type: str
    text: str | None = None
    source: _Source | None = None


class Block(blocks.Block):
    """A content block of any kind that is known."""

    id: Name | None = None
    name: Name | None = None
    source: _Source | None = None
    tool_use_id: Name | None = None
    content: str | list[Shown] | None = None
    is_error: bool | None = None


class Turn(Open):
    """A message as it is written."""

    role: str
    content: str | list[Block]


T = TypeVar("T")

_decode_object = msgspec.json.Decoder(Json).decode


def messages_of(written: list[Turn], images: Images) -> tuple[Message, ...]:
    """The messages; pictures are added to `images`.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    found: list[Message] = []
    for place, turn in enumerate(written):
        field = f"messages[{place}].content"
        if turn.role == "user":
            found += _user(turn, field, images)
        elif turn.role == "assistant":
            found.append(_assistant(turn, field))
        elif turn.role == "system":
            found.append(Message(role="system", parts=texts(turn.content, field), extra=turn.extra))
        else:
            raise Malformed(f"role {turn.role[:40]!r} is not one of user, assistant, system", f"messages[{place}].role")
    return tuple(found)


def texts(content: str | list[Block], field: str) -> tuple[Part, ...]:
    """Content that may only be text.

    Raises:
        Malformed: another kind of block.
    """
    if isinstance(content, str):
        return _text(content)
    parts: list[Part] = []
    for place, block in enumerate(content):
        if block.type != "text":
            raise _unsupported(block, f"{field}[{place}]", "text")
        parts += _text(_needed(block.text, f"{field}[{place}].text"), block.extra)
    return tuple(parts)


def _user(turn: Turn, field: str, images: Images) -> list[Message]:
    content = turn.content
    if isinstance(content, str):
        return [Message(role="user", parts=_text(content), extra=turn.extra)]
    results: list[Message] = []
    parts: list[Part] = []
    for place, block in enumerate(content):
        here = f"{field}[{place}]"
        if block.type == "tool_result":
            results.append(_result(block, here, images))
        else:
            parts += _shown(block, here, images, "text, image, tool_result")
    if parts or not results:
        results.append(Message(role="user", parts=tuple(parts), extra=turn.extra))
    elif turn.extra:
        last = results[-1]
        more = joined(last.extra, nested(turn=turn.extra))
        results[-1] = msgspec.structs.replace(last, extra=more)
    return results


def _result(block: Block, field: str, images: Images) -> Message:
    parts: list[Part] = [TOOL_ERROR] if block.is_error else []
    if isinstance(block.content, str):
        parts += _text(block.content)
    else:
        for place, inner in enumerate(block.content or ()):
            parts += _shown(inner, f"{field}.content[{place}]", images, "text, image")
    answered = _needed(block.tool_use_id, f"{field}.tool_use_id")
    return Message(role="tool", parts=tuple(parts), tool_call_id=answered, extra=block.extra)


def _shown(block: Shown | Block, field: str, images: Images, known: str) -> tuple[Part, ...]:
    if block.type == "text":
        return _text(_needed(block.text, f"{field}.text"), block.extra)
    if block.type != "image":
        raise _unsupported(block, field, known)
    source = _needed(block.source, f"{field}.source")
    if source.type == "base64":
        media_type = _needed(source.media_type, f"{field}.source.media_type")
        found = of_base64(media_type, _needed(source.data, f"{field}.source.data"), f"{field}.source", images)
    elif source.type == "url":
        found = of_url(_needed(source.url, f"{field}.source.url"), f"{field}.source.url", images)
    else:
        raise Malformed(f"a source of type {source.type[:40]!r} is not supported: send base64", f"{field}.source.type")
    extra = joined(block.extra, nested(source=source.extra))
    return (msgspec.structs.replace(found, extra=extra) if extra else found,)


def _assistant(turn: Turn, field: str) -> Message:
    content = turn.content
    if isinstance(content, str):
        return Message(role="assistant", parts=_text(content), extra=turn.extra)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for place, block in enumerate(content):
        _check(block, f"{field}[{place}]")
        if block.type == "tool_use":
            calls.append(blocks.call_of(block, place))
        elif (part := blocks.part_of(block)) is not None:
            parts.append(part)
    return Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls), extra=turn.extra)


_NEEDED = {"text": ("text",), "thinking": ("thinking",), "redacted_thinking": ("data",), "tool_use": ("id", "name")}
"""What blocks of the assistant's must have."""

_PROVIDERS = re.compile(r"server_tool_use\Z|\w+_tool_result\Z|mcp_tool_use\Z|container_upload\Z|compaction\Z").match
"""Kinds of blocks that only the provider's own tools give."""


def _check(block: Block, field: str) -> None:
    if block.type not in _NEEDED and not _PROVIDERS(block.type):
        raise _unsupported(block, field, "text, tool_use, thinking, redacted_thinking")
    for name in _NEEDED.get(block.type, ()):
        _needed(getattr(block, name), f"{field}.{name}")
    if block.type == "tool_use":
        given = None if isinstance(block.input, msgspec.UnsetType) else block.input
        decoded(_decode_object, _needed(given, f"{field}.input"), f"{field}.input")


def _text(text: str, extra: Json | None = None) -> tuple[Part, ...]:
    return (TextPart(text=text, extra=extra),) if text else ()


def _unsupported(block: Shown | Block, field: str, known: str) -> Malformed:
    return Malformed(f"blocks of type {block.type[:40]!r} are not supported here (known: {known})", f"{field}.type")


def _needed(value: T | None, field: str) -> T:
    if value is None:
        raise Malformed("this field is required", field)
    return value
