"""A streamed Anthropic reply.

    begin ─▶ message_start, ping
    delta ─▶ content_block_start, content_block_delta … content_block_stop     (one block at a time: thinking or text)
    end   ─▶ what is left, a block for each tool call, message_delta (stop reason, usage), message_stop

Text that goes on after other blocks stands in a block of its own; the newline that joins the two parts of a Message is
left out between them.
"""

from __future__ import annotations

import msgspec

from silva.models.anthropic.blocks import block_of, tool_use
from silva.models.anthropic.marks import ANTHROPIC, UNSIGNED, SignedDelta, input_of, redacted_data
from silva.models.carried import merged
from silva.models.gateway.dialects.anthropic.errors import error_body
from silva.models.gateway.dialects.anthropic.writing import (
    ids_of,
    message,
    stop_of,
    usage_of,
)
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.said import Said
from silva.models.model import Completion, Delta
from silva.tree import NO_USAGE, Json, ThinkingPart

_encode = msgspec.json.Encoder().encode


class AnthropicEvents:
    """Writes one streamed reply."""

    def __init__(self, asked: Asked, stamp: Stamp) -> None:
        self._asked = asked
        self._stamp = stamp
        self._said = Said()
        self._index = 0
        self._open = ""  # "text", "thinking", or nothing
        self._texts = 0
        self._thought = False
        self._signatures: set[str] = set()
        self._more: Json | None = None  # what the block that begins next says beside its words

    def begin(self) -> bytes:
        """The message starts; what it costs is only known at its end."""
        body = message(self._stamp, [], usage_of(NO_USAGE))
        return _event("message_start", message=body) + _event("ping")

    def delta(self, delta: Delta) -> bytes:
        """A piece of text or thinking."""
        self._said.add(delta.text, delta.thinking)
        written: list[bytes] = []
        extra = delta.extra if delta.dialect == ANTHROPIC else None
        if extra and (more := extra.get("block")):
            self._close(written)
            self._more = more
        if extra and (other := extra.get("other")):
            self._close(written)
            self._block(written, other)
            self._stop(written)
        if delta.thinking:
            self._thinking(written, delta.thinking)
        if isinstance(delta, SignedDelta) and delta.signature:
            self._sign(written, delta.signature)
        if delta.text:
            self._text(written, delta.text)
        if extra and (piece := extra.get("delta")) and self._open:
            self._piece(written, piece)
        return b"".join(written)

    def end(self, completion: Completion) -> bytes:
        """What is left, and the end."""
        said = completion.message
        text, thinking = self._said.rest(said)
        ours = completion.dialect == ANTHROPIC
        thoughts = [part for part in said.parts if isinstance(part, ThinkingPart)]
        written: list[bytes] = []
        if not self._thought:
            for part in thoughts:
                if part.text:
                    self._thinking(written, part.text)
                if part.signature:
                    self._sign(written, part.signature)
                self._close(written)
        elif thinking:
            self._thinking(written, thinking)
        if self._open == "thinking" and thoughts and (signature := thoughts[-1].signature):
            self._sign(written, signature)
        if text:
            self._text(written, text)
        self._close(written)
        for call in said.tool_calls:
            self._block(written, tool_use(call, call.extra if ours else None) | {"input": {}})
            arguments = bytes(input_of(call.arguments)).decode()
            self._piece(written, {"type": "input_json_delta", "partial_json": arguments})
            self._stop(written)
        stop = stop_of(self._asked, completion)
        fields: Json = {"delta": stop, "usage": usage_of(completion.usage)} | ids_of(self._asked, completion)
        if ours:
            fields = merged(fields, completion.extra)
        written.append(_event("message_delta", **fields))
        written.append(_event("message_stop"))
        return b"".join(written)

    def error(self, status: int, kind: str, message: str) -> bytes:
        """An event with the error."""
        return b"event: error\ndata: " + error_body(status, kind, message) + b"\n\n"

    def _thinking(self, written: list[bytes], text: str) -> None:
        if self._open != "thinking":
            self._close(written)
            self._block(written, {"type": "thinking", "thinking": "", "signature": ""})
            self._open, self._thought = "thinking", True
        self._piece(written, {"type": "thinking_delta", "thinking": text})

    def _sign(self, written: list[bytes], signature: str) -> None:
        if signature in self._signatures:
            return
        self._signatures.add(signature)
        self._thought = True
        part = ThinkingPart(text="", signature=signature)
        if self._open != "thinking":
            self._close(written)
            block = block_of(part, None) if redacted_data(part) is not None else None
            self._block(written, block or {"type": "thinking", "thinking": "", "signature": ""})
            if block is not None:
                self._stop(written)
                return
        self._piece(written, {"type": "signature_delta", "signature": signature})
        self._open = ""
        self._stop(written)

    def _text(self, written: list[bytes], text: str) -> None:
        if self._open != "text":
            if self._texts:
                text = text.removeprefix("\n")
                if not text:
                    return
            self._close(written)
            self._block(written, {"type": "text", "text": ""})
            self._open = "text"
            self._texts += 1
        self._piece(written, {"type": "text_delta", "text": text})

    def _block(self, written: list[bytes], block: Json) -> None:
        more, self._more = self._more, None
        block = merged(block, more)
        written.append(_event("content_block_start", index=self._index, content_block=block))

    def _piece(self, written: list[bytes], delta: Json) -> None:
        written.append(_event("content_block_delta", index=self._index, delta=delta))

    def _stop(self, written: list[bytes]) -> None:
        written.append(_event("content_block_stop", index=self._index))
        self._index += 1

    def _close(self, written: list[bytes]) -> None:
        if self._open == "thinking":
            self._piece(written, {"type": "signature_delta", "signature": UNSIGNED})
        if self._open:
            self._open = ""
            self._stop(written)


def _event(name: str, /, **fields: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _encode({"type": name, **fields}) + b"\n\n"
