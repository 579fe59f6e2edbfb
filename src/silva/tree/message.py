"""One message: what a node says, in parts, with the tool calls it makes.

A message is provider-neutral. `role` is the chat role; parts carry text, thinking or images (an image is named by the
hash of its bytes, which live in the lake's blobs, so a picture seen in fifty turns is stored once). Tool-call
arguments are kept as the *raw JSON text* the model wrote: re-serialising them would change tokens, and invalid JSON is
data worth keeping.

What a client or a provider says beyond these fields stays beside them in `extra`: the members of the JSON object that
nobody here has a word for, nested as they were (`{"function": {"strict": true}}` of a chat tool). Whoever writes the
record in the same API merges them in again; see `silva.models.carried`.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import msgspec

# msgspec leaves a default out when the value *is* the default, not when it equals it. Node ids hash the encoding, so
# equal messages must encode alike: the records below put the one object in the place of any equal text.
_NO_ARGUMENTS = "{}"
_PNG = "image/png"

Json: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every stored value: immutable, keyword-only, defaults left out when written."""


class TextPart(Record, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str
    extra: Json | None = None


class ThinkingPart(Record, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """Reasoning the model showed; `signature` is a provider's proof that it may be sent back."""

    text: str
    signature: str | None = None
    extra: Json | None = None


class ImagePart(Record, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image by content hash (`sha256` hex of its bytes); width and height in pixels where known, `detail` how
    closely a provider was asked to look (`low`, `high`, `auto`)."""

    hash: str
    media_type: str = _PNG
    width: int | None = None
    height: int | None = None
    detail: str | None = None
    extra: Json | None = None

    def __post_init__(self) -> None:
        if self.media_type == _PNG:
            msgspec.structs.force_setattr(self, "media_type", _PNG)


class OtherPart(Record, frozen=True, kw_only=True, tag_field="type", tag="other"):
    """A part of a kind that Silva has no word for, as the API it came by wrote it: what a provider's own tool found, a
    sound."""

    written: Json

    @property
    def text(self) -> str:
        """Nothing of it is text."""
        return ""

    @property
    def label(self) -> str:
        """What stands for it where only text can stand."""
        return f"[{self.written.get('type') or 'part'}]"


Part: TypeAlias = TextPart | ThinkingPart | ImagePart | OtherPart


class ToolCall(Record, frozen=True, kw_only=True):
    """A call the assistant made; `arguments` is the raw JSON text exactly as sampled."""

    id: str
    name: str
    arguments: str = _NO_ARGUMENTS
    extra: Json | None = None

    def __post_init__(self) -> None:
        if self.arguments == _NO_ARGUMENTS:
            msgspec.structs.force_setattr(self, "arguments", _NO_ARGUMENTS)

    def parsed(self) -> Json:
        """Return the arguments as an object.

        Raises:
            ValueError: the text is not a JSON object; the message names the tool and the fault.
        """
        try:
            value = json.loads(self.arguments or "{}")
        except json.JSONDecodeError as error:
            raise ValueError(f"tool call {self.name}: arguments are not JSON ({error})") from error
        if not isinstance(value, dict):
            raise ValueError(f"tool call {self.name}: arguments are not a JSON object")
        return value  # pyright: ignore[reportUnknownVariableType]


class Tool(Record, frozen=True, kw_only=True):
    """A tool the agent may call; `parameters` is a JSON Schema object, `strict` whether arguments must follow it."""

    name: str
    description: str = ""
    parameters: Json = msgspec.field(default_factory=dict[str, Any])
    strict: bool | None = None
    extra: Json | None = None


class Message(Record, frozen=True, kw_only=True):
    """A chat message. `tool_call_id` links a tool result to the call it answers."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    extra: Json | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by newlines."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        """The thinking parts, joined by newlines."""
        return "\n".join(part.text for part in self.parts if isinstance(part, ThinkingPart))


def system(text: str) -> Message:
    """A system message of plain text."""
    return Message(role="system", parts=(TextPart(text=text),))


def user(text: str, *images: ImagePart) -> Message:
    """A user message of plain text, then images."""
    return Message(role="user", parts=(TextPart(text=text), *images))


def assistant(text: str = "", *calls: ToolCall) -> Message:
    """An assistant message of plain text (no part when empty) and tool calls."""
    return Message(role="assistant", parts=(TextPart(text=text),) if text else (), tool_calls=calls)


def tool_result(call_id: str, text: str, name: str | None = None) -> Message:
    """A tool's answer to the call `call_id`."""
    return Message(role="tool", parts=(TextPart(text=text),), tool_call_id=call_id, name=name)


def call(name: str, arguments: Json, call_id: str = "") -> ToolCall:
    """A tool call from an argument object; the id defaults to the tool's name."""
    return ToolCall(id=call_id or name, name=name, arguments=json.dumps(arguments, ensure_ascii=False))
