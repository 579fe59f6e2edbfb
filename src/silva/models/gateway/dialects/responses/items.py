"""The input items of a Responses body to messages.

reasoning ─┐
message   ─┼▶ one assistant message, as one reply gave them; a message after words or calls begins the next,
…_call    ─┘  and takes the reasoning just before it along
…_call_output ─▶ tool message
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from silva.models.carried import Open, joined
from silva.models.gateway.dialects.chat.history import DEVELOPER, ROLES
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.images import Images, of_url
from silva.models.gateway.dialects.reading import Name, join, named
from silva.models.gateway.dialects.responses.offered import SHELL
from silva.tree import Json, Message, Part, TextPart, ThinkingPart, ToolCall


class _Part(Open):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    annotations: Any = None
    logprobs: Any = None


class _Thought(msgspec.Struct):
    text: str


class Action(msgspec.Struct, omit_defaults=True):
    """What a local shell is to run."""

    command: list[str]
    working_directory: str | None = None
    timeout_ms: int | None = None
    env: dict[str, str] | None = None


class _Item(Open):
    type: str | None = None
    role: str | None = None
    status: Any = None
    content: str | list[_Part] | None = None
    id: str | None = None
    call_id: Name | None = None
    name: Name | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[_Part] | None = None
    action: Action | None = None
    summary: list[_Thought] | None = None
    encrypted_content: str | None = None


Input = str | list[_Item]

TEXTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class _Turn:
    """The assistant message under way."""

    def __init__(self, parts: list[Part] | None = None) -> None:
        self.parts = parts or []
        self.calls: list[ToolCall] = []
        self.spoke = False
        self.extra: Json | None = None

    @property
    def begun(self) -> bool:
        return self.spoke or bool(self.parts) or bool(self.calls)

    def next(self) -> _Turn:
        """Cut off the thinking at the end, which belongs to what comes now."""
        last = len(self.parts)
        while last and isinstance(self.parts[last - 1], ThinkingPart):
            last -= 1
        if not self.spoke:  # calls alone: the thinking led to them
            last = len(self.parts)
        ahead = self.parts[last:]
        del self.parts[last:]
        return _Turn(ahead)

    def message(self) -> Message:
        return Message(role="assistant", parts=tuple(self.parts), tool_calls=tuple(self.calls), extra=self.extra)


def messages_of(written: Input, images: Images) -> tuple[Message, ...]:
    """The messages; pictures are added to `images`.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    if isinstance(written, str):
        return (Message(role="user", parts=(TextPart(text=written),) if written else ()),)
    found: list[Message] = []
    turn = _Turn()

    for place, item in enumerate(written):
        field = f"input[{place}]"
        kind = item.type
        if kind is None:
            kind = "message" if item.role is not None else "item_reference"
        if kind == "message" and item.role == "assistant":
            if turn.spoke or turn.calls:
                following = turn.next()
                found.append(turn.message())
                turn = following
            turn.parts += _parts(item.content, f"{field}.content", images)
            turn.extra = joined(turn.extra, item.extra)
            turn.spoke = True
        elif kind == "reasoning":
            turn.parts.append(_thinking(item, field))
        elif kind in _CALLS:
            turn.calls.append(_call(item, kind, field))
        else:
            if turn.begun:
                found.append(turn.message())
                turn = _Turn()
            found.append(_other(item, kind, field, images))
    if turn.begun:
        found.append(turn.message())
    return tuple(found)


def _other(item: _Item, kind: str, field: str, images: Images) -> Message:
    if kind == "message":
        role = ROLES.get(item.role or "")
        if role not in ("system", "user"):
            raise Malformed(
                f"role {(item.role or '')[:40]!r} is not one of user, assistant, system, developer", f"{field}.role"
            )
        name = DEVELOPER if item.role == DEVELOPER else None
        return Message(
            role=role, parts=tuple(_parts(item.content, f"{field}.content", images)), name=name, extra=item.extra
        )
    if kind in OUTPUTS:
        answered = item.call_id
        if answered is None and kind == "local_shell_call_output" and item.id is not None:
            answered = named(item.id, f"{field}.id")
        parts = tuple(_parts(_given(item.output, f"{field}.output"), f"{field}.output", images))
        return Message(role="tool", parts=parts, tool_call_id=_given(answered, f"{field}.call_id"), extra=item.extra)
    if kind == "item_reference":
        raise Malformed("items are not kept here: send the item itself (with store: false SDKs do)", field)
    raise Malformed(f"items of type {kind[:40]!r} are not supported", f"{field}.type")


def _call(item: _Item, kind: str, field: str) -> ToolCall:
    call_id = _given(item.call_id, f"{field}.call_id")
    if kind == "local_shell_call":
        arguments = shell_arguments(_given(item.action, f"{field}.action"))
        return ToolCall(id=call_id, name=SHELL, arguments=arguments, extra=item.extra)
    name = _given(item.name, f"{field}.name")
    if kind == "custom_tool_call":
        text = _given(item.input, f"{field}.input")
        return ToolCall(id=call_id, name=name, arguments=_encode({"input": text}).decode(), extra=item.extra)
    arguments = "{}" if item.arguments is None else item.arguments
    return ToolCall(id=call_id, name=name, arguments=arguments, extra=item.extra)


def shell_arguments(action: Action) -> str:
    """The arguments of the local shell's function; an empty environment is none."""
    return _encode(action if action.env else msgspec.structs.replace(action, env=None)).decode()


def _thinking(item: _Item, field: str) -> ThinkingPart:
    content = item.content or ()
    texts = [content] if isinstance(content, str) else [part.text or "" for part in content]
    if not any(texts):
        texts = [thought.text for thought in item.summary or ()]
    return ThinkingPart(text="\n".join(texts), signature=item.encrypted_content or None, extra=item.extra)


def _parts(content: str | list[_Part] | None, field: str, images: Images) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(text=content)] if content else []
    parts: list[Part] = []
    for place, part in enumerate(content or ()):
        here = join(field, f"[{place}]")
        if part.type in TEXTS or part.type == "refusal":
            text = part.refusal if part.type == "refusal" else part.text
            if text := _given(text, f"{here}.{'refusal' if part.type == 'refusal' else 'text'}"):
                parts.append(TextPart(text=text, extra=part.extra))
        elif part.type == "input_image":
            if part.image_url is None:
                raise Malformed("files are not kept here: send the picture as a data: URL", f"{here}.image_url")
            picture = of_url(part.image_url, f"{here}.image_url", images)
            if part.detail is not None or part.extra:
                picture = msgspec.structs.replace(picture, detail=part.detail, extra=part.extra)
            parts.append(picture)
        else:
            raise Malformed(
                f"parts of type {part.type[:40]!r} are not supported: send input_text or input_image", f"{here}.type"
            )
    return parts


def _given(value: T | None, field: str) -> T:
    if value is None:
        raise Malformed("this field is required", field)
    return value
