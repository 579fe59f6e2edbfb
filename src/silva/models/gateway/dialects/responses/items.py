"""Items of the Responses API to messages: those of a body's input, and those of a provider's reply.

reasoning ─┐
message   ─┼▶ one assistant message, as one reply gave them; a message after words or calls begins the next,
…_call    ─┘  and takes the reasoning just before it along (one of a provider's id goes on with its reply)
…_call_output ─▶ tool message
others        ─▶ a part as it was written, of the assistant's message or of a client's own; only a backend of this API
                 can be told them
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from silva.models.body import DEVELOPER
from silva.models.carried import Open, Reader, joined
from silva.models.gateway.dialects.chat.history import ROLES
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.images import Images, of_url
from silva.models.gateway.dialects.reading import Name, decoded, join, named, plain, reader
from silva.models.gateway.dialects.responses.marks import AFTER, ITEM, PART, mark_of, marked, named_once, stamp_of
from silva.models.gateway.dialects.responses.offered import SHELL, Native
from silva.tree import Json, Message, OtherPart, Part, TextPart, ThinkingPart, ToolCall


class _Part(Open):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None

    def other(self) -> OtherPart:
        """The part as one of a kind that nobody here reads."""
        written = {name: value for name in _PART_NAMES if (value := getattr(self, name)) is not None}
        return OtherPart(written=written | (self.extra or {}))


class _Thought(Open):
    text: str
    type: str = "summary_text"


class Action(msgspec.Struct, omit_defaults=True):
    """What a local shell is to run."""

    command: list[str]
    working_directory: str | None = None
    timeout_ms: int | None = None
    env: dict[str, str] | None = None


class _Item(Open):
    type: str | None = None
    role: str | None = None
    status: str | None = None
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


class _Kind(msgspec.Struct):
    type: str | None = None
    role: str | None = None


class Foreign(msgspec.Struct):
    """An item of a kind that nobody here reads, as it was written."""

    written: Json

    @property
    def kind(self) -> str:
        """Its type."""
        return self.written["type"]

    @property
    def from_client(self) -> bool:
        """Whether the client gave it, not a model: a result, a consent, a name of something stored."""
        return self.kind.endswith(("_output", "_response")) or self.kind in _CLIENTS


Input = str | list[_Item | Foreign]

_CLIENTS = ("item_reference", "compaction_trigger", "additional_tools")
_PART_NAMES = ("type", "text", "refusal", "image_url", "detail", "annotations", "logprobs")

TEXTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")

_KNOWN = frozenset({None, "message", "reasoning", "", *CALLS, *OUTPUTS})

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode_kinds = msgspec.json.Decoder(str | list[_Kind]).decode
_decode_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_of_clients: Reader[Any] = reader(str | list[_Item])
_item_of_clients: Reader[Any] = reader(_Item)
_items: Reader[Any] = Reader(list[_Item])
_item: Reader[Any] = Reader(_Item)


def input_of(data: bytes | msgspec.Raw) -> Input:
    """The field `input` of a body, read as what it is.

    Raises:
        msgspec.DecodeError, Malformed: it is not what this API takes.
    """
    return _read(data, _of_clients, _item_of_clients)


def output_of(data: bytes | msgspec.Raw) -> Input:
    """The field `output` of a provider's reply, read; what it says beyond what is known is kept within bounds.

    Raises:
        msgspec.DecodeError, Malformed: it is not what this API gives.
    """
    return _read(data, _items, _item)


def _read(data: bytes | msgspec.Raw, whole: Reader[Any], one: Reader[Any]) -> Input:
    kinds = _decode_kinds(data)
    if isinstance(kinds, str) or all(kind.type in _KNOWN for kind in kinds):
        return whole(data)
    found: list[_Item | Foreign] = []
    for place, (kind, raw) in enumerate(zip(kinds, _decode_raws(data), strict=True)):
        if kind.type in _KNOWN:
            found.append(decoded(one, raw, f"[{place}]"))
        else:
            found.append(Foreign(plain(_decode_any(raw), f"[{place}]")))
    return found


class _Turn:
    """The assistant message under way. Its calls stand with the number of parts before them; `replies` are the stamps
    of the replies that gave its items, "" for a provider's."""

    def __init__(self, parts: list[Part] | None = None, replies: set[str] | None = None) -> None:
        self.parts = parts or []
        self.calls: list[tuple[ToolCall, int]] = []
        self.spoke = False
        self.replies = replies or set()

    @property
    def begun(self) -> bool:
        return self.spoke or bool(self.parts) or bool(self.calls)

    def takes(self, item: _Item) -> bool:
        """Whether a message goes on with what the turn has: nothing of its own yet, or the same provider's reply."""
        if not (self.spoke or self.calls):
            return True
        return item.id is not None and stamp_of(item.id) is None and self.replies == {""}

    def given(self, item: _Item) -> None:
        """Note whose reply an item came in."""
        if item.id is not None:
            self.replies.add(stamp_of(item.id) or "")

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
        calls = [
            call if place >= len(self.parts) else msgspec.structs.replace(call, extra=_after(call.extra, place))
            for call, place in self.calls
        ]
        return Message(role="assistant", parts=tuple(self.parts), tool_calls=tuple(calls))


def _after(extra: Json | None, place: int) -> Json:
    return {**(extra or {}), ITEM: {**mark_of(extra), AFTER: place}}


def messages_of(written: Input, images: Images, native: list[Native]) -> tuple[Message, ...]:
    """The messages; pictures are added to `images`, what only a backend of this API can be told to `native`.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    if isinstance(written, str):
        return (Message(role="user", parts=(TextPart(text=written),) if written else ()),)
    read = _Reading(images, native)
    found: list[Message] = []
    turn = _Turn()
    for place, item in enumerate(written):
        field = f"input[{place}]"
        if isinstance(item, Foreign):
            read.refuse(f"items of type {item.kind[:40]!r} are not supported", f"{field}.type")
            if not item.from_client:
                turn.parts.append(OtherPart(written=item.written))
                continue
        elif item.type == "reasoning":
            turn.given(item)
            turn.parts.append(_thinking(item))
            continue
        elif item.type in CALLS:
            turn.given(item)
            turn.calls.append((_call(item, item.type, field), len(turn.parts)))
            continue
        elif item.role == "assistant" and item.type in (None, "message"):
            if not turn.takes(item):
                following = turn.next()
                found.append(turn.message())
                turn = following
            turn.given(item)
            turn.parts += read.said(item, f"{field}.content")
            turn.spoke = True
            continue
        if turn.begun:
            found.append(turn.message())
            turn = _Turn()
        found.append(read.client(item, place, field))
    if turn.begun:
        found.append(turn.message())
    return tuple(found)


class _Reading:
    """Reads messages and results."""

    def __init__(self, images: Images, native: list[Native]) -> None:
        self._images = images
        self._native = native

    def refuse(self, words: str, field: str) -> None:
        """Note what a backend of another API cannot be told, in the words it is refused with there."""
        self._native.append((field, words))

    def said(self, item: _Item, field: str) -> list[Part]:
        """The parts of an assistant's message; the first holds what its item says beyond them."""
        parts = self.parts(item.content, field)
        mark = {"id": item.id, "status": item.status, **(item.extra or {})}
        if not any(isinstance(part, TextPart) for part in parts) and marked(None, mark):
            parts.insert(0, TextPart(text=""))
        for place, part in enumerate(parts):
            if isinstance(part, TextPart):
                parts[place] = msgspec.structs.replace(part, extra=marked(part.extra, mark))
                break
        return parts

    def client(self, item: _Item | Foreign, place: int, field: str) -> Message:
        """What is no model's."""
        if isinstance(item, Foreign):
            answered: Any = item.written.get("call_id")
            part = OtherPart(written=item.written)
            if isinstance(answered, str) and answered:
                return Message(role="tool", parts=(part,), tool_call_id=answered)
            return Message(role="user", parts=(part,))
        kind = item.type
        if kind is None and item.role is None:
            kind = "item_reference"
        mark: Json = {"id": item.id, "status": item.status}
        if kind in (None, "message"):
            role = ROLES.get(item.role or "")
            if role not in ("system", "user"):
                raise Malformed(
                    f"role {(item.role or '')[:40]!r} is not one of user, assistant, system, developer", f"{field}.role"
                )
            if role == "system" and not place:
                mark["type"] = "message"  # else it would be taken for instructions
            name = DEVELOPER if item.role == DEVELOPER else None
            parts = tuple(self.parts(item.content, f"{field}.content"))
            return Message(role=role, parts=parts, name=name, extra=marked(item.extra, mark))
        if kind in OUTPUTS:
            answered = item.call_id
            if answered is None and kind == "local_shell_call_output" and item.id is not None:
                answered = named(item.id, f"{field}.id")
            if kind != "function_call_output":
                mark["type"] = kind
            parts = tuple(self.parts(_given(item.output, f"{field}.output"), f"{field}.output"))
            answered = _given(answered, f"{field}.call_id")
            return Message(role="tool", parts=parts, tool_call_id=answered, extra=marked(item.extra, mark))
        if kind == "item_reference":
            self.refuse("items are not kept here: send the item itself (with store: false SDKs do)", field)
            return Message(role="user", parts=(OtherPart(written={"type": kind, "id": item.id}),))
        raise Malformed(f"items of type {(kind or '')[:40]!r} are not supported", f"{field}.type")

    def parts(self, content: str | list[_Part] | None, field: str) -> list[Part]:
        """The content of a message or of a result."""
        if isinstance(content, str):
            return [TextPart(text=content)] if content else []
        parts: list[Part] = []
        for place, part in enumerate(content or ()):
            here = join(field, f"[{place}]")
            if part.type in TEXTS or part.type == "refusal":
                text = part.refusal if part.type == "refusal" else part.text
                if text := _given(text, f"{here}.{'refusal' if part.type == 'refusal' else 'text'}"):
                    parts.append(TextPart(text=text, extra=_beside(part)))
            elif part.type == "input_image" and (part.image_url or "").startswith("data:"):
                picture = of_url(part.image_url or "", f"{here}.image_url", self._images)
                if part.detail is not None or part.extra:
                    picture = msgspec.structs.replace(picture, detail=part.detail, extra=part.extra)
                parts.append(picture)
            else:
                self._foreign(part, here)
                parts.append(part.other())
        return parts

    def _foreign(self, part: _Part, field: str) -> None:
        """Note a part of which nothing is read."""
        if part.type != "input_image":
            words = f"parts of type {part.type[:40]!r} are not supported: send input_text or input_image"
            self.refuse(words, f"{field}.type")
        elif part.image_url is None:
            self.refuse("files are not kept here: send the picture as a data: URL", f"{field}.image_url")
        else:
            try:
                of_url(part.image_url, f"{field}.image_url", {})
            except Malformed as fault:
                self.refuse(str(fault), fault.field)


def _beside(part: _Part) -> Json | None:
    extra = joined(part.extra, {"type": "refusal"}) if part.type == "refusal" else part.extra
    return marked(extra, {"annotations": part.annotations or None, "logprobs": part.logprobs or None}, PART)


def _call(item: _Item, kind: str, field: str) -> ToolCall:
    call_id = _given(item.call_id, f"{field}.call_id")
    extra = marked(item.extra, {"id": item.id, "status": item.status})
    if kind == "local_shell_call":
        arguments = shell_arguments(_given(item.action, f"{field}.action"))
        return ToolCall(id=call_id, name=SHELL, arguments=arguments, extra=_of_kind(extra, kind))
    name = _given(item.name, f"{field}.name")
    if kind == "custom_tool_call":
        text = _given(item.input, f"{field}.input")
        arguments = _encode({"input": text}).decode()
        return ToolCall(id=call_id, name=name, arguments=arguments, extra=_of_kind(extra, kind))
    arguments = "{}" if item.arguments is None else item.arguments
    name, extra = named_once(name, extra)
    return ToolCall(id=call_id, name=name, arguments=arguments, extra=extra)


def _of_kind(extra: Json | None, kind: str) -> Json:
    return {**(extra or {}), ITEM: {"type": kind, **mark_of(extra)}}


def shell_arguments(action: Action) -> str:
    """The arguments of the local shell's function; an empty environment is none."""
    return _encode(action if action.env else msgspec.structs.replace(action, env=None)).decode()


def _thinking(item: _Item) -> ThinkingPart:
    content = item.content or ()
    texts = [content] if isinstance(content, str) else [part.text or "" for part in content]
    if not any(texts):
        texts = [thought.text for thought in item.summary or ()]
    text = "\n".join(texts)
    mark: Json = {"id": item.id, "status": item.status}
    for name in ("summary", "content"):
        if value := getattr(item, name):
            mark[name] = value if isinstance(value, str) else [_plain(each) for each in value]
    if mark.get("content") == [{"type": "reasoning_text", "text": text}]:
        del mark["content"]
    return ThinkingPart(text=text, signature=item.encrypted_content or None, extra=marked(item.extra, mark))


def _plain(part: _Part | _Thought) -> Json:
    if isinstance(part, _Part):
        return part.other().written
    return {"type": part.type, "text": part.text, **(part.extra or {})}


def _given(value: T | None, field: str) -> T:
    if value is None:
        raise Malformed("this field is required", field)
    return value
