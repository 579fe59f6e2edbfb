"""A reply of the Anthropic Messages API, whole or streamed, put together.

message_start ─▶ model, usage        content_block_start, _delta … _stop ─▶ a block        message_delta ─▶ why it ended
                                      └▶ Delta (text, thinking), SignedDelta at the end of signed thinking
What is said beyond these comes in a Delta's `extra`: of a block that begins under `block`, of a piece of one under
`delta`, a whole block of a kind nobody knows under `other`, of the message as it stands in the message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.anthropic.blocks import KNOWN, Block, call_of, part_of
from silva.models.anthropic.marks import ANTHROPIC, STOP_SEQUENCE, SignedDelta, redacted
from silva.models.anthropic.replies import FINISHES, WireReply, WireUsage
from silva.models.carried import Open, Reader, grown, joined, nested, written
from silva.models.endpoint import Endpoint
from silva.models.model import Completion, Delta
from silva.models.pieces import Pieces
from silva.models.wire import SET_ASIDE, Reported, WireError
from silva.tree import Json, Message, Part, ToolCall


class _Piece(Open):
    type: str | None = None
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Event(Open):
    type: str
    index: int = 0
    message: WireReply | None = None
    content_block: Block | None = None
    delta: _Piece | None = None
    usage: WireUsage | None = None
    error: Any = None


_read_event: Reader[_Event] = Reader(_Event)
_read_whole: Reader[WireReply] = Reader(WireReply)


class Assembly(Pieces):
    """The pieces of one reply so far. `finished` once a stop reason came, `ended` once the stream said so."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._blocks: dict[int, Block] = {}
        self._inputs: dict[int, list[str]] = {}
        self._reply = WireReply()
        self._usage = WireUsage()
        self._spoke = False
        self._around: Json = {}

    @property
    def finished(self) -> bool:
        """See `Pieces`."""
        return self._reply.stop_reason is not None and self.ended

    def absorb(self, event: bytes) -> Delta | None:
        """See `Pieces`. Kinds nobody knows are passed over, as the API asks of its clients."""
        self.last_event = event
        found = self._taken(_read_event, event)
        if found.error is not None:
            raise Reported(found.error)
        if found.type == "content_block_delta" and found.delta is not None:
            return self._grown(found.index, found.delta)
        if found.type == "content_block_start" and found.content_block is not None:
            return self._begun(found.index, found.content_block)
        if found.type == "content_block_stop":
            return self._closed(found.index)
        if found.type == "message_start" and found.message is not None:
            self._reply.model = found.message.model
            self._usage = self._usage.updated(found.message.usage)
            return self._more(found.message.extra)
        elif found.type == "message_delta":
            self._usage = self._usage.updated(found.usage)
            if found.delta is not None:
                self._reply.stop_reason = found.delta.stop_reason or self._reply.stop_reason
                self._reply.stop_sequence = found.delta.stop_sequence
                self._around = grown(self._around, found.delta.extra or {})
            return self._more(found.extra)
        elif found.type == "message_stop":
            self.ended = True
        return None

    def whole(self, body: bytes) -> None:
        """See `Pieces`."""
        reply = self._taken(_read_whole, body)
        if reply.error is not None:
            raise Reported(reply.error)
        if reply.content is None:
            raise WireError("the reply has no content")
        self._reply, self._blocks = reply, dict(enumerate(reply.content))
        self._usage, self._around = self._usage.updated(reply.usage), reply.extra or {}

    def finish(self, seconds: float, attempts: int, waited: float) -> Completion:
        """See `Pieces`."""
        parts: list[Part] = []
        calls: list[ToolCall] = []
        for _, block in sorted(self._blocks.items()):
            if block.type == "tool_use":
                if not block.name:
                    raise WireError("a tool call has no name")
                calls.append(call_of(block, len(calls)))
            elif (part := part_of(block)) is not None:
                parts.append(part)
        reply, why = self._reply, self._reply.stop_reason
        attributes: Json = {STOP_SEQUENCE: reply.stop_sequence} if reply.stop_sequence else {}
        if self._aside:
            attributes[SET_ASIDE] = self._aside
        return Completion(
            message=Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls)),
            finish_reason=FINISHES.get(why, why) if why else ("tool_calls" if calls else "unknown"),
            usage=self._usage.usage(self._endpoint, waited),
            model=reply.model or self._endpoint.model,
            seconds=seconds,
            attempts=attempts,
            attributes=attributes,
            extra=joined(self._around or None, nested(usage=self._usage.extra)),
            dialect=ANTHROPIC,
        )

    def _begun(self, index: int, block: Block) -> Delta | None:
        self._blocks[index] = block
        more = nested(block=block.extra) if block.type in KNOWN else None
        if block.type == "redacted_thinking":
            return SignedDelta(signature=redacted(block.data or "").signature or "")
        text, thinking = block.text, block.thinking or ""
        if block.type == "text" and text:
            block.text = ""
            said = self._text(block, text)
            return msgspec.structs.replace(said, extra=more, dialect=ANTHROPIC) if more else said
        if block.type == "tool_use":  # its call holds what it says
            return None
        return Delta(thinking=thinking, extra=more, dialect=ANTHROPIC) if thinking or more else None

    def _more(self, extra: Json | None) -> Delta | None:
        """What the message says beyond what is read of it."""
        if not extra:
            return None
        self._around = grown(self._around, extra)
        return Delta(extra=extra, dialect=ANTHROPIC)

    def _grown(self, index: int, piece: _Piece) -> Delta | None:
        block = self._blocks.get(index)
        if block is None:
            raise WireError(f"a piece of block {index}, which was not begun")
        if piece.type == "text_delta" and piece.text:
            return self._text(block, piece.text)
        if piece.type == "thinking_delta" and piece.thinking:
            block.thinking = (block.thinking or "") + piece.thinking
            return Delta(thinking=piece.thinking)
        if piece.type == "signature_delta":
            block.signature = (block.signature or "") + piece.signature
        elif piece.type == "input_json_delta":
            self._inputs.setdefault(index, []).append(piece.partial_json)
        elif piece.extra and piece.type:
            return self._other(block, piece.type, piece.extra)
        return None

    def _other(self, block: Block, kind: str, extra: Json) -> Delta | None:
        """A piece of a kind nobody knows (`citations_delta`): its block holds a list of them (`citations`)."""
        name = kind.removesuffix("_delta")
        value = next(iter(extra.values())) if len(extra) == 1 else extra
        before = (block.extra or {}).get(name)
        known: list[Any] = before if isinstance(before, list) else []
        block.extra = {**(block.extra or {}), name: [*known, value]}
        return Delta(extra={"delta": {"type": kind, **extra}}, dialect=ANTHROPIC) if block.type in KNOWN else None

    def _text(self, block: Block, text: str) -> Delta:
        # a Message joins its text parts by newlines, and the pieces must add up to it
        glue = "\n" if self._spoke and not block.text else ""
        self._spoke = True
        block.text = (block.text or "") + text
        return Delta(text=glue + text)

    def _closed(self, index: int) -> Delta | None:
        block = self._blocks.get(index)
        if block is None:
            return None
        if block.type.endswith("tool_use") and (arguments := "".join(self._inputs.pop(index, ()))):
            block.input = msgspec.Raw(arguments.encode())
        if block.type == "thinking" and block.signature:
            return SignedDelta(signature=block.signature)
        if block.type not in KNOWN:
            return Delta(extra={"other": written(block)}, dialect=ANTHROPIC)
        return None
