"""A reply of the Responses API, whole or streamed, put together.

    output_text.delta, reasoning_…_text.delta ─▶ Delta (text, thinking)     output_item.done of reasoning ─▶ SignedDelta
    response.completed, .incomplete ─▶ the whole response ─▶ Completion     response.failed, error ─▶ Reported

Every event of an item goes along as it came in its Delta's extra, under `event`, so that a client of this API is told
the same; but for those of calls, whose ids are the gateway's to keep apart: they come with the completion.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.anthropic.marks import SignedDelta
from silva.models.carried import Open, Reader
from silva.models.endpoint import Endpoint
from silva.models.gateway.dialects.responses.items import CALLS
from silva.models.gateway.dialects.responses.marks import RESPONSES
from silva.models.gateway.responses.replies import Response, completion, read_response
from silva.models.model import Completion, Delta
from silva.models.pieces import Pieces
from silva.models.stream import DONE
from silva.models.wire import Reported, WireError
from silva.tree import Json


class _Item(msgspec.Struct):
    type: str = ""
    encrypted_content: str | None = None


class _Event(Open):
    type: str = ""
    sequence_number: Any = None
    output_index: int = 0
    response: Response | None = None
    item: msgspec.Raw = msgspec.Raw(b"")
    delta: Any = None
    text: Any = None
    message: Any = None
    code: Any = None
    error: Any = None


_decode: Reader[_Event] = Reader(_Event)
_decode_item = msgspec.json.Decoder(_Item).decode
_plain = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

_THOUGHTS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CALLED = ("response.function_call_arguments.", "response.custom_tool_call_input.")


class Assembly(Pieces):
    """What came of one reply so far. `finished` and `ended` once the whole response came."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._items: dict[int, msgspec.Raw] = {}
        self._response: Response | None = None
        self._spoke: tuple[Any, ...] | None = None

    @property
    def finished(self) -> bool:
        """See `Pieces`."""
        return self._response is not None

    def absorb(self, event: bytes) -> Delta | None:
        """See `Pieces`."""
        self.last_event = event
        if event == DONE:
            self.ended = True
            return None
        found = self._taken(_decode, event)
        if found.type == "error" or found.error is not None:
            raise Reported(found.error or {"message": found.message, "code": found.code})
        if found.type in _ENDS and found.response is not None:
            self._response, self.ended = found.response, True
            if bytes(found.response.output) in (b"null", b"[]"):
                found.response.output = msgspec.Raw(_encode([self._items[index] for index in sorted(self._items)]))
            if found.type == "response.failed":
                raise Reported(found.response.error or {"message": "the response failed", "code": "server_error"})
            return None
        if found.response is not None or found.type.startswith(_CALLED):
            return None
        return self._heard(found, event)

    def whole(self, body: bytes) -> None:
        """See `Pieces`."""
        self._response = self._taken(read_response, body)

    def finish(self, seconds: float, attempts: int, waited: float) -> Completion:
        """See `Pieces`."""
        response = self._response
        if response is None:
            raise WireError("the stream has no response")
        try:
            return completion(self._endpoint, response, seconds, attempts, waited, tuple(self._aside))
        except msgspec.DecodeError as fault:
            raise WireError(f"the response cannot be read: {fault}") from fault

    def _heard(self, found: _Event, event: bytes) -> Delta | None:
        written = _plain(event)
        written.pop("sequence_number", None)
        extra: Json = {"event": written}
        if bytes(found.item):
            item = _decode_item(found.item)
            if found.type == "response.output_item.done":
                self._items[found.output_index] = found.item
            if item.type in CALLS:
                return None
            if found.type == "response.output_item.done" and item.type == "reasoning" and item.encrypted_content:
                return SignedDelta(signature=item.encrypted_content, extra=extra, dialect=RESPONSES)
        text = thinking = ""
        if isinstance(found.delta, str):
            if found.type in ("response.output_text.delta", "response.refusal.delta"):
                text = self._text(written, found.delta)
            elif found.type in _THOUGHTS:
                thinking = found.delta
        return Delta(text=text, thinking=thinking, extra=extra, dialect=RESPONSES)

    def _text(self, written: Json, text: str) -> str:
        # a Message joins its text parts by newlines, and the pieces must add up to it
        part = (written.get("output_index"), written.get("content_index"))
        glue = "\n" if self._spoke not in (None, part) else ""
        self._spoke = part
        return glue + text
