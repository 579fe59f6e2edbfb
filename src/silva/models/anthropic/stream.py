"""A streamed reply of the Anthropic Messages API, put together.

message_start ─▶ model, usage        content_block_start, _delta … _stop ─▶ a block        message_delta ─▶ why it ended
                                      └▶ Delta (text, thinking), SignedDelta at the end of signed thinking
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.anthropic.marks import SignedDelta, redacted
from silva.models.anthropic.replies import WireBlock, WireReply, WireUsage, completion
from silva.models.endpoint import Endpoint
from silva.models.model import Delta
from silva.models.wire import Reported, WireError


class _Piece(msgspec.Struct):
    type: str | None = None
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: WireReply | None = None
    content_block: WireBlock | None = None
    delta: _Piece | None = None
    usage: WireUsage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class Assembly:
    """The pieces of one streamed reply so far. `finished` once a stop reason came, `ended` once the stream said so."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._blocks: dict[int, WireBlock] = {}
        self._inputs: dict[int, list[str]] = {}
        self._usage = WireUsage()
        self._model: str | None = None
        self._stop_reason: str | None = None
        self._stop_sequence: str | None = None
        self._spoke = False
        self.last_event = b""
        self.ended = False

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        return self._stop_reason is not None and self.ended

    def absorb(self, event: bytes) -> Delta | None:
        """Take in one event and return what it adds to read, if anything. Kinds nobody knows are passed over, as the
        API asks of its clients.

        Raises:
            Reported: the server put an error into the stream.
            WireError: a piece of a block that was not begun.
            msgspec.DecodeError: the event is not one of this API.
        """
        self.last_event = event
        found = _decode(event)
        if found.error is not None:
            raise Reported(found.error)
        if found.type == "content_block_delta" and found.delta is not None:
            return self._grown(found.index, found.delta)
        if found.type == "content_block_start" and found.content_block is not None:
            return self._begun(found.index, found.content_block)
        if found.type == "content_block_stop":
            return self._closed(found.index)
        if found.type == "message_start" and found.message is not None:
            self._model = found.message.model
            self._usage = self._usage.updated(found.message.usage)
        elif found.type == "message_delta":
            self._usage = self._usage.updated(found.usage)
            if found.delta is not None:
                self._stop_reason = found.delta.stop_reason or self._stop_reason
                self._stop_sequence = found.delta.stop_sequence
        elif found.type == "message_stop":
            self.ended = True
        return None

    def finish(self, seconds: float, attempts: int, waited: float) -> Delta:
        """The last delta: the tool calls and the whole completion.

        Raises:
            WireError: a tool call without a name.
        """
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        whole = completion(
            self._endpoint,
            blocks,
            self._stop_reason,
            self._stop_sequence,
            self._usage,
            self._model,
            seconds,
            attempts,
            waited,
        )
        return Delta(tool_calls=whole.message.tool_calls, completion=whole)

    def _begun(self, index: int, block: WireBlock) -> Delta | None:
        self._blocks[index] = block
        if block.type == "redacted_thinking":
            return SignedDelta(signature=redacted(block.data).signature or "")
        text, thinking = block.text, block.thinking
        if block.type == "text" and text:
            block.text = ""
            return self._text(block, text)
        return Delta(thinking=thinking) if thinking else None

    def _grown(self, index: int, piece: _Piece) -> Delta | None:
        block = self._blocks.get(index)
        if block is None:
            raise WireError(f"a piece of block {index}, which was not begun")
        if piece.type == "text_delta" and piece.text:
            return self._text(block, piece.text)
        if piece.type == "thinking_delta" and piece.thinking:
            block.thinking += piece.thinking
            return Delta(thinking=piece.thinking)
        if piece.type == "signature_delta":
            block.signature = (block.signature or "") + piece.signature
        elif piece.type == "input_json_delta":
            self._inputs.setdefault(index, []).append(piece.partial_json)
        return None

    def _text(self, block: WireBlock, text: str) -> Delta:
        # a Message joins its text parts by newlines, and the pieces must add up to it
        glue = "\n" if self._spoke and not block.text else ""
        self._spoke = True
        block.text += text
        return Delta(text=glue + text)

    def _closed(self, index: int) -> Delta | None:
        block = self._blocks.get(index)
        if block is None:
            return None
        if block.type == "tool_use" and (written := "".join(self._inputs.pop(index, ()))):
            block.input = msgspec.Raw(written.encode())
        if block.type == "thinking" and block.signature:
            return SignedDelta(signature=block.signature)
        return None
