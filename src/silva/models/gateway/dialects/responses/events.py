"""A streamed Responses reply.

    begin ─▶ response.created, response.in_progress
    thinking ─▶ output_item.added, content_part.added, reasoning_text.delta …           (a reasoning item, closed by
                reasoning_text.done, content_part.done, output_item.done                 text or a signature)
    text     ─▶ output_item.added, content_part.added, output_text.delta …               (one message item, open until
                output_text.done, content_part.done, output_item.done                    the end)
    end      ─▶ each call's item, then response.completed or response.incomplete

What a backend of this API says of an item is told as it came, but for its calls: they come at the end, in their places.
Every event has the next sequence number. A stream that breaks off ends in `response.failed` and then `error`, which is
what makes SDKs raise.
"""

from __future__ import annotations

import msgspec

from silva.models.anthropic.marks import SignedDelta
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.openai_errors import kind_of
from silva.models.gateway.dialects.responses import output
from silva.models.gateway.dialects.responses.items import CALLS
from silva.models.gateway.dialects.responses.marks import RESPONSES
from silva.models.gateway.dialects.responses.writing import finished, response
from silva.models.gateway.dialects.said import Said
from silva.models.model import Completion, Delta
from silva.tree import Json, ThinkingPart

_encode = msgspec.json.Encoder().encode


class _Open:
    """An item under way: its place in the output and what it holds so far."""

    def __init__(self, place: int, item: Json) -> None:
        self.place = place
        self.id: str = item.get("id", "")
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)


class ResponsesEvents:
    """Writes one streamed reply."""

    def __init__(self, asked: Asked, stamp: Stamp) -> None:
        self._asked = asked
        self._stamp = stamp
        self._said = Said()
        self._number = 0
        self._items: list[Json] = []  # by place; those under way as they began
        self._reasoning: _Open | None = None
        self._message: _Open | None = None
        self._thought = False
        self._as_it_came = False

    def begin(self) -> bytes:
        """The response is created and in progress."""
        body = response(self._asked, self._stamp, "in_progress", [])
        return self._event("response.created", response=body) + self._event("response.in_progress", response=body)

    def delta(self, delta: Delta) -> bytes:
        """A piece of text or thinking."""
        if delta.dialect == RESPONSES and delta.extra:
            self._as_it_came = True
            event = dict(delta.extra["event"])
            return self._event(event.pop("type"), **event)
        self._said.add(delta.text, delta.thinking)
        written: list[bytes] = []
        if delta.thinking:
            self._think(written, delta.thinking)
        if isinstance(delta, SignedDelta) and delta.signature:
            self._close_reasoning(written, delta.signature)
        if delta.text:
            self._close_reasoning(written, None)
            self._speak(written, delta.text)
        return b"".join(written)

    def end(self, completion: Completion) -> bytes:
        """What is left, and the end."""
        if self._as_it_came:
            return self._last(completion)
        said = completion.message
        text, thinking = self._said.rest(said)
        thoughts = [part for part in said.parts if isinstance(part, ThinkingPart)]
        written: list[bytes] = []
        if not self._thought:
            for part in thoughts:
                self._think(written, part.text)
                self._close_reasoning(written, part.signature)
        elif thinking:
            self._think(written, thinking)
        self._close_reasoning(written, thoughts[-1].signature if thoughts else None)
        if text or (self._message is None and not said.tool_calls):
            self._speak(written, text)
        self._close_message(written, completion)
        for call in said.tool_calls:
            self._call(written, output.called(self._asked, self._stamp, len(self._items), call))
        body = finished(self._asked, completion, self._stamp, self._items)
        written.append(self._event(f"response.{body['status']}", response=body))
        return b"".join(written)

    def _last(self, completion: Completion) -> bytes:
        """The calls of a reply whose other items were told as they came, and the end."""
        written: list[bytes] = []
        items = output.output_of(self._asked, completion, self._stamp)
        self._items = []
        for item in items:
            if item["type"] in CALLS:
                self._call(written, item)
            else:
                self._items.append(item)
        body = finished(self._asked, completion, self._stamp, items)
        written.append(self._event(f"response.{body['status']}", response=body))
        return b"".join(written)

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The response failed."""
        _, named = kind_of(status, kind)
        code = named or "invalid_prompt"
        body = response(self._asked, self._stamp, "failed", self._items, {"code": code, "message": message})
        # SDKs look for the error both in the event itself and under `error`
        error = {"message": message, "type": kind_of(status, kind)[0], "code": code, "param": None}
        return self._event("response.failed", response=body) + self._event(
            "error", code=code, message=message, param=None, error=error
        )

    def _think(self, written: list[bytes], text: str) -> None:
        if self._reasoning is None:
            self._thought = True
            item = output.reasoning(self._stamp, len(self._items), "", None, "in_progress")
            self._reasoning = self._begun(written, item)
            if text:
                written.append(self._part("response.content_part.added", self._reasoning, output.reasoning_part("")))
        under_way = self._reasoning
        if text:
            under_way.texts.append(text)
            written.append(self._piece("response.reasoning_text.delta", under_way, delta=text))

    def _close_reasoning(self, written: list[bytes], signature: str | None) -> None:
        if self._reasoning is None:
            if not signature or signature in (item.get("encrypted_content") for item in self._items):
                return
            self._think(written, "")  # only the provider may read it
        under_way, self._reasoning = self._reasoning, None
        if under_way is None:
            return
        if text := under_way.text:
            written.append(self._piece("response.reasoning_text.done", under_way, text=text))
            written.append(self._part("response.content_part.done", under_way, output.reasoning_part(text)))
        self._done(written, under_way.place, output.reasoning(self._stamp, under_way.place, text, signature))

    def _speak(self, written: list[bytes], text: str) -> None:
        if self._message is None:
            item = output.message(self._stamp, len(self._items), None, "in_progress")
            self._message = self._begun(written, item)
            written.append(self._part("response.content_part.added", self._message, output.text_part("")))
        if text:
            self._message.texts.append(text)
            written.append(self._piece("response.output_text.delta", self._message, delta=text, logprobs=()))

    def _close_message(self, written: list[bytes], completion: Completion) -> None:
        under_way = self._message
        if under_way is None:
            return
        scores = output.logprobs(self._asked, completion)
        part = output.text_part(under_way.text, scores)
        written.append(self._piece("response.output_text.done", under_way, text=under_way.text, logprobs=scores))
        written.append(self._part("response.content_part.done", under_way, part))
        status = "incomplete" if output.incomplete(completion) else "completed"
        self._done(written, under_way.place, output.message(self._stamp, under_way.place, part, status))

    def _call(self, written: list[bytes], item: Json) -> None:
        field, name = {
            "function_call": ("arguments", "response.function_call_arguments"),
            "custom_tool_call": ("input", "response.custom_tool_call_input"),
        }.get(item["type"], ("", ""))
        begun = self._begun(written, {**item, "status": "in_progress"} | ({field: ""} if field else {}))
        if field:
            place = {"item_id": begun.id, "output_index": begun.place}
            if item[field]:
                written.append(self._event(f"{name}.delta", **place, delta=item[field]))
            written.append(self._event(f"{name}.done", **place, **{field: item[field], "name": item["name"]}))
        self._done(written, begun.place, item)

    def _begun(self, written: list[bytes], item: Json) -> _Open:
        begun = _Open(len(self._items), item)
        self._items.append(item)
        written.append(self._event("response.output_item.added", output_index=begun.place, item=item))
        return begun

    def _done(self, written: list[bytes], place: int, item: Json) -> None:
        self._items[place] = item
        written.append(self._event("response.output_item.done", output_index=place, item=item))

    def _part(self, name: str, under_way: _Open, part: Json) -> bytes:
        return self._piece(name, under_way, part=part)

    def _piece(self, name: str, under_way: _Open, **fields: object) -> bytes:
        return self._event(name, item_id=under_way.id, output_index=under_way.place, content_index=0, **fields)

    def _event(self, name: str, /, **fields: object) -> bytes:
        body = {"type": name, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: " + name.encode() + b"\ndata: " + _encode(body) + b"\n\n"
