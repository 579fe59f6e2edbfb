"""The messages of an Anthropic body: content blocks to messages.

user      ─▶ tool_result blocks ─▶ a tool message each; then text and image blocks ─▶ one user message
assistant ─▶ thinking, redacted_thinking, text ─▶ parts; tool_use ─▶ tool calls
system    ─▶ system message (in the midst of a conversation)
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from silva.models.anthropic.marks import TOOL_ERROR, arguments_of, redacted
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.images import Images, of_base64, of_url
from silva.models.gateway.dialects.reading import Name, decoded
from silva.tree import Json, Message, Part, TextPart, ThinkingPart, ToolCall


class _Source(msgspec.Struct):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Block(msgspec.Struct):
    """A content block of any kind that is known."""

    type: str
    text: str | None = None
    source: _Source | None = None
    id: Name | None = None
    name: Name | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tool_use_id: Name | None = None
    content: str | list[Block] | None = None
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class Turn(msgspec.Struct):
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
            found += _user(turn.content, field, images)
        elif turn.role == "assistant":
            found.append(_assistant(turn.content, field))
        elif turn.role == "system":
            found.append(Message(role="system", parts=texts(turn.content, field)))
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
        parts += _text(_needed(block.text, f"{field}[{place}].text"))
    return tuple(parts)


def _user(content: str | list[Block], field: str, images: Images) -> list[Message]:
    if isinstance(content, str):
        return [Message(role="user", parts=_text(content))]
    results: list[Message] = []
    parts: list[Part] = []
    for place, block in enumerate(content):
        here = f"{field}[{place}]"
        if block.type == "tool_result":
            results.append(_result(block, here, images))
        else:
            parts += _shown(block, here, images, "text, image, tool_result")
    if parts or not results:
        results.append(Message(role="user", parts=tuple(parts)))
    return results


def _result(block: Block, field: str, images: Images) -> Message:
    parts: list[Part] = [TOOL_ERROR] if block.is_error else []
    if isinstance(block.content, str):
        parts += _text(block.content)
    else:
        for place, inner in enumerate(block.content or ()):
            parts += _shown(inner, f"{field}.content[{place}]", images, "text, image")
    answered = _needed(block.tool_use_id, f"{field}.tool_use_id")
    return Message(role="tool", parts=tuple(parts), tool_call_id=answered)


def _shown(block: Block, field: str, images: Images, known: str) -> tuple[Part, ...]:
    if block.type == "text":
        return _text(_needed(block.text, f"{field}.text"))
    if block.type != "image":
        raise _unsupported(block, field, known)
    source = _needed(block.source, f"{field}.source")
    if source.type == "base64":
        media_type = _needed(source.media_type, f"{field}.source.media_type")
        return (of_base64(media_type, _needed(source.data, f"{field}.source.data"), f"{field}.source", images),)
    if source.type == "url":
        return (of_url(_needed(source.url, f"{field}.source.url"), f"{field}.source.url", images),)
    raise Malformed(f"a source of type {source.type[:40]!r} is not supported: send base64", f"{field}.source.type")


def _assistant(content: str | list[Block], field: str) -> Message:
    if isinstance(content, str):
        return Message(role="assistant", parts=_text(content))
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for place, block in enumerate(content):
        here = f"{field}[{place}]"
        if block.type == "text":
            parts += _text(_needed(block.text, f"{here}.text"))
        elif block.type == "tool_use":
            calls.append(_call(block, here))
        elif block.type == "thinking":
            text = _needed(block.thinking, f"{here}.thinking")
            if text or block.signature:
                parts.append(ThinkingPart(text=text, signature=block.signature or None))
        elif block.type == "redacted_thinking":
            parts.append(redacted(_needed(block.data, f"{here}.data")))
        else:
            raise _unsupported(block, here, "text, tool_use, thinking, redacted_thinking")
    return Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls))


def _call(block: Block, field: str) -> ToolCall:
    call_id, name = _needed(block.id, f"{field}.id"), _needed(block.name, f"{field}.name")
    if isinstance(block.input, msgspec.UnsetType):
        raise Malformed("this field is required", f"{field}.input")
    decoded(_decode_object, block.input, f"{field}.input")
    return ToolCall(id=call_id, name=name, arguments=arguments_of(bytes(block.input).decode()))


def _text(text: str) -> tuple[Part, ...]:
    return (TextPart(text=text),) if text else ()


def _unsupported(block: Block, field: str, known: str) -> Malformed:
    return Malformed(f"blocks of type {block.type[:40]!r} are not supported here (known: {known})", f"{field}.type")


def _needed(value: T | None, field: str) -> T:
    if value is None:
        raise Malformed("this field is required", field)
    return value
