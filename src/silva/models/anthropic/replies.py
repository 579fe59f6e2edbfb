"""A reply of the Anthropic Messages API as a Completion.

`prompt_tokens` counts all input, cached or not; this API counts the cached tokens apart. A block of a kind that only
the provider's own tools give is kept as it was written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.anthropic.marks import ANTHROPIC, STOP_SEQUENCE, arguments_of, redacted
from silva.models.carried import Open, Reader, joined, merged, nested
from silva.models.endpoint import Endpoint
from silva.models.forgiving import forgiven
from silva.models.model import Completion
from silva.models.wire import SET_ASIDE, Count, Reported, WireError
from silva.tree import Json, Message, OtherPart, Part, TextPart, ThinkingPart, ToolCall, Usage

_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": STOP_SEQUENCE,
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class WireBlock(Open):
    """A content block of a reply."""

    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")

    def other(self) -> OtherPart:
        """The block as a part of a kind that nobody here knows."""
        written: Json = {"type": self.type}
        for name in ("text", "thinking", "signature", "data", "id", "name"):
            if value := getattr(self, name):
                written[name] = value
        if bytes(self.input) != b"{}" or self.type.endswith("_use"):
            written["input"] = _plain(self.input)
        return OtherPart(written=merged(written, self.extra))


class WireUsage(Open):
    """Tokens billed."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None

    def updated(self, later: WireUsage | None) -> WireUsage:
        """These counts, with those of a later event in the place of the ones it names."""
        if later is None:
            return self
        names = [name for name in self.__struct_fields__ if name != "extra"]
        found = {n: v if (v := getattr(later, n)) is not None else getattr(self, n) for n in names}
        return WireUsage(**found, extra=joined(later.extra, self.extra))


class WireReply(Open):
    """A message, whole or as a stream begins it."""

    id: Any = None
    type: Any = None
    role: Any = None
    content: list[WireBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: WireUsage | None = None
    model: str | None = None
    error: Any = None


_decode: Reader[WireReply] = Reader(WireReply)
_plain = msgspec.json.Decoder().decode


def decode_reply(body: bytes, endpoint: Endpoint, seconds: float, attempts: int, waited: float) -> Completion:
    """Read one reply; the arguments are those of `silva.models.wire.decode_reply`.

    Raises:
        Reported: the server put an error into it.
        WireError: it is not what a message looks like.
        msgspec.DecodeError: it is not JSON, or a field has the wrong type.
    """
    reply, aside = forgiven(_decode, body)
    if reply.error is not None:
        raise Reported(reply.error)
    return completion(endpoint, reply, seconds, attempts, waited, aside)


def completion(
    endpoint: Endpoint, reply: WireReply, seconds: float, attempts: int, waited: float, aside: tuple[str, ...]
) -> Completion:
    """A reply, read whole or put together, as a Completion; `aside` names the fields that were set aside.

    Raises:
        WireError: it has no content, or a tool call without a name.
    """
    if reply.content is None:
        raise WireError("the reply has no content")
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for block in reply.content:
        if block.type == "text" and block.text:
            parts.append(TextPart(text=block.text, extra=block.extra))
        elif block.type == "thinking" and (block.thinking or block.signature):
            parts.append(ThinkingPart(text=block.thinking, signature=block.signature or None, extra=block.extra))
        elif block.type == "redacted_thinking":
            parts.append(redacted(block.data, block.extra))
        elif block.type == "tool_use":
            if not block.name:
                raise WireError("a tool call has no name")
            arguments = arguments_of(bytes(block.input).decode())
            name = block.id or f"call_{len(calls)}"
            calls.append(ToolCall(id=name, name=block.name, arguments=arguments, extra=block.extra))
        elif block.type not in _SILENT:
            parts.append(block.other())
    counted = reply.usage or WireUsage()
    cached = counted.cache_read_input_tokens or 0
    written = counted.cache_creation_input_tokens or 0
    prompt = (counted.input_tokens or 0) + cached + written
    sampled = counted.output_tokens or 0
    why = reply.stop_reason
    finish = _FINISHES.get(why, why) if why else ("tool_calls" if calls else "unknown")
    attributes: Json = {STOP_SEQUENCE: reply.stop_sequence} if reply.stop_sequence else {}
    if aside:
        attributes[SET_ASIDE] = list(aside)
    return Completion(
        message=Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls)),
        finish_reason=finish,
        usage=Usage(
            prompt_tokens=prompt,
            completion_tokens=sampled,
            cached_tokens=cached,
            written_tokens=written,
            usd=endpoint.usd(prompt, sampled, cached, written),
            model_seconds=waited,
        ),
        model=reply.model or endpoint.model,
        seconds=seconds,
        attempts=attempts,
        attributes=attributes,
        extra=joined(reply.extra, nested(usage=counted.extra)),
        dialect=ANTHROPIC,
    )


_SILENT = ("text", "thinking")
"""Kinds of blocks that say nothing where they are empty."""
