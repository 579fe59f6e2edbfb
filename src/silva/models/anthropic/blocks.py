"""Content blocks of an assistant's message, for both directions: a provider's reply, and a client's history.

a block ─▶ part_of, call_of ─▶ parts and calls of a Message ─▶ block_of, tool_use ─▶ the block
"""

from __future__ import annotations

import msgspec

from silva.models.anthropic.marks import UNSIGNED, arguments_of, input_of, redacted, redacted_data
from silva.models.carried import Open, merged, written
from silva.tree import Json, OtherPart, Part, TextPart, ThinkingPart, ToolCall

KNOWN = ("text", "thinking", "redacted_thinking", "tool_use")
"""Kinds of blocks that a Message has words for."""


class Block(Open):
    """A content block."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def part_of(block: Block) -> Part | None:
    """The part that a block is, which makes no call; None where it says nothing."""
    if block.type == "text":
        return TextPart(text=block.text, extra=block.extra) if block.text else None
    if block.type == "thinking":
        proof = None if block.signature == UNSIGNED else block.signature or None
        said = block.thinking or ""
        return ThinkingPart(text=said, signature=proof, extra=block.extra) if said or proof else None
    if block.type == "redacted_thinking":
        return redacted(block.data or "", block.extra)
    return OtherPart(written=written(block))


def call_of(block: Block, place: int) -> ToolCall:
    """The call of a `tool_use` block; one without an id is named by its place."""
    arguments = "{}" if isinstance(block.input, msgspec.UnsetType) else arguments_of(bytes(block.input).decode())
    return ToolCall(id=block.id or f"call_{place}", name=block.name or "", arguments=arguments, extra=block.extra)


def block_of(part: Part, extra: Json | None) -> Json | None:
    """The block of a part, with what else is said of it; None where there is nothing to show."""
    if isinstance(part, OtherPart):
        return part.written
    if isinstance(part, TextPart):
        return merged({"type": "text", "text": part.text}, extra) if part.text else None
    if isinstance(part, ThinkingPart):
        data = redacted_data(part)
        if data is not None:
            return merged({"type": "redacted_thinking", "data": data}, extra)
        return merged({"type": "thinking", "thinking": part.text, "signature": part.signature or UNSIGNED}, extra)
    return None


def tool_use(call: ToolCall, extra: Json | None) -> Json:
    """The block of a call, with what else is said of it."""
    return merged({"type": "tool_use", "id": call.id, "name": call.name, "input": input_of(call.arguments)}, extra)
