"""The messages of a Chat Completions body."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.body import DEVELOPER
from silva.models.carried import Open, joined, nested
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.images import Images, of_url
from silva.models.gateway.dialects.reading import named
from silva.models.wire import WireMessage, other, thought
from silva.tree import Message, Part, Role, TextPart, ThinkingPart, ToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class _Address(Open):
    url: str
    detail: str | None = None


class _Part(Open):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _Address | str | None = None


class _Function(Open):
    name: str
    arguments: str | None = None


class _Call(Open):
    id: str
    type: str = "function"
    function: _Function | None = None


class _Message(WireMessage):
    role: str = ""
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    tool_call_id: str | None = None
    name: str | None = None
    audio: Any = None


Messages = list[_Message]


def messages_of(written: Messages, images: Images) -> tuple[Message, ...]:
    """The messages; pictures are added to `images`.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    if not written:
        raise Malformed("there must be at least one message", "messages")
    found: list[Message] = []
    legacy: dict[str, str] = {}  # name of a legacy call to the id it was given
    for place, message in enumerate(written):
        role = ROLES.get(message.role)
        if role is None:
            raise Malformed(f"role {message.role[:40]!r} is not one of {', '.join(ROLES)}", f"messages[{place}].role")
        content = message.content
        if isinstance(content, str):
            parts: tuple[Part, ...] = (TextPart(text=content),) if content else ()
        elif content:
            parts = _parts(content, f"messages[{place}].content", images, role == "assistant")
        else:
            parts = ()
        name = message.name or None
        if name is not None:
            named(name, f"messages[{place}].name")
        if role == "assistant":
            found.append(_assistant(message, parts, name, place, legacy))
            continue
        if message.tool_calls or message.function_call is not None:
            raise Malformed("only an assistant message makes calls", f"messages[{place}].tool_calls")
        answered = message.tool_call_id
        if role != "tool":
            answered = None
            if message.role == DEVELOPER and name is None:
                name = DEVELOPER
        elif answered is None:
            if message.role == "tool":
                raise Malformed("this field is required", f"messages[{place}].tool_call_id")
            if name is None:
                raise Malformed("this field is required", f"messages[{place}].name")
            answered = legacy.get(name, f"call_{name}")
        else:
            named(answered, f"messages[{place}].tool_call_id")
        found.append(Message(role=role, parts=parts, tool_call_id=answered, name=name, extra=message.extra))
    return tuple(found)


def _assistant(
    message: _Message, parts: tuple[Part, ...], name: str | None, place: int, legacy: dict[str, str]
) -> Message:
    if message.audio is not None:
        raise Malformed("audio is not supported", f"messages[{place}].audio")
    if message.refusal and not parts:
        parts = (TextPart(text=message.refusal),)
    if thinking := message.reasoning_content or message.reasoning:
        parts = (ThinkingPart(text=thinking), *parts)
    calls: tuple[ToolCall, ...] = ()
    function = message.function_call
    if function is not None:
        named(function.name, f"messages[{place}].function_call.name")
    if message.tool_calls:
        calls = tuple([_call(call, place, number) for number, call in enumerate(message.tool_calls)])
    elif function is not None:
        legacy[function.name] = f"call_{place}"
        arguments = "{}" if function.arguments is None else function.arguments
        calls = (ToolCall(id=f"call_{place}", name=function.name, arguments=arguments, extra=function.extra),)
    return Message(role="assistant", parts=parts, tool_calls=calls, name=name, extra=message.beside)


def _call(call: _Call, place: int, number: int) -> ToolCall:
    function = call.function
    if call.type != "function" or function is None:
        field = f"messages[{place}].tool_calls[{number}]"
        if call.type != "function":
            raise Malformed(f"calls of type {call.type[:40]!r} are not supported", f"{field}.type")
        raise Malformed("this field is required", f"{field}.function")
    name = function.name
    if not (call.id.isprintable() and name.isprintable() and 0 < len(call.id) <= 80 and 0 < len(name) <= 80):
        named(call.id, f"messages[{place}].tool_calls[{number}].id")
        named(name, f"messages[{place}].tool_calls[{number}].function.name")
    arguments = function.arguments
    extra = joined(call.extra, nested(function=function.extra)) if call.extra or function.extra else None
    return ToolCall(id=call.id, name=name, arguments="{}" if arguments is None else arguments, extra=extra)


def _parts(content: list[_Part], field: str, images: Images, policy: bool) -> tuple[Part, ...]:
    parts: list[Part] = []
    for place, part in enumerate(content):
        if part.type == "text" or part.type == "refusal":
            text = part.text if part.type == "text" else part.refusal
            if text is None:
                raise Malformed("this field is required", f"{field}[{place}].{part.type}")
            if text:
                extra = part.extra if part.type == "text" else joined(part.extra, {"type": "refusal"})
                parts.append(TextPart(text=text, extra=extra))
        elif part.type == "thinking" and policy:
            parts.append(thought(part.extra))
        elif policy and part.type != "image_url":
            parts.append(other(part.type, part.text, part.extra))
        elif part.type == "image_url":
            given = part.image_url
            if given is None:
                raise Malformed("this field is required", f"{field}[{place}].image_url")
            address = given if isinstance(given, _Address) else _Address(url=given)
            picture = of_url(address.url, f"{field}[{place}].image_url.url", images)
            extra = joined(part.extra, nested(image_url=address.extra))
            if extra or address.detail is not None:
                picture = msgspec.structs.replace(picture, detail=address.detail, extra=extra)
            parts.append(picture)
        else:
            raise Malformed(
                f"parts of type {part.type[:40]!r} are not supported: send text or image_url", f"{field}[{place}].type"
            )
    return tuple(parts)
