"""What the Anthropic API says and a Message has no field for, and how it is kept without loss.

    tool_result with is_error: true     ◀─▶ the tool message's first part is the text "[tool error]"
    redacted_thinking block with data   ◀─▶ a thinking part without text, signature "redacted:" and the data
    thinking that nobody signed         ◀─▶ a thinking block with the signature "silva", so that clients send it back
    tool_use input (always an object)   ◀─▶ raw argument text; what is no object stands under "_raw" as text

The error mark is words, not a field, so that a model behind any other API reads it too. Reading and writing undo each
other, so a conversation comes back as it went.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.model import Delta
from silva.tree import Json, Part, TextPart, ThinkingPart

ANTHROPIC = "anthropic"
"""This API's name where it is said in whose words something is."""

RAW = "_raw"
"""The one key of an argument object that holds arguments which are not a JSON object, as the model wrote them."""

UNSIGNED = "silva"
"""The signature of a thinking block that was given without one: clients drop blocks that have none."""

TOOL_ERROR = TextPart(text="[tool error]")
"""The first part of a tool message that reports a failure."""

STOP_SEQUENCE = "stop_sequence"
"""The finish reason of a reply that met a stop sequence, and the attribute of its completion that holds it."""

_REDACTED = "redacted:"

_object = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class SignedDelta(Delta, frozen=True, kw_only=True):
    """The end of a stretch of streamed thinking, with the provider's proof of it."""

    signature: str = ""


def parsed_object(arguments: str | bytes) -> dict[str, Any] | None:
    """The arguments as an object, or None where they are not one that JSON readers agree on."""
    try:
        return _object(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def input_of(arguments: str) -> msgspec.Raw:
    """The JSON object of a `tool_use` block: the arguments as they were written, or `{"_raw": …}` around them."""
    if not arguments.strip():
        return msgspec.Raw(b"{}")
    if parsed_object(arguments) is not None:
        return msgspec.Raw(arguments.encode())
    return msgspec.Raw(_encode({RAW: arguments}))


def arguments_of(written: str) -> str:
    """The raw arguments of a `tool_use` block whose input is the JSON object `written`."""
    if RAW in written:
        value = parsed_object(written)
        if value is not None and len(value) == 1 and isinstance(value.get(RAW), str):
            return value[RAW]
    return written


def redacted(data: str, extra: Json | None = None) -> ThinkingPart:
    """The thinking part that keeps the data of a redacted block."""
    return ThinkingPart(text="", signature=_REDACTED + data, extra=extra)


def redacted_data(part: ThinkingPart) -> str | None:
    """The data of a redacted block, or None where the part is thinking in plain words."""
    if part.text or part.signature is None or not part.signature.startswith(_REDACTED):
        return None
    return part.signature[len(_REDACTED) :]


def without_mark(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], bool]:
    """The parts of a tool message without the error mark, and whether it was there."""
    if parts and parts[0] == TOOL_ERROR:
        return parts[1:], True
    return parts, False
