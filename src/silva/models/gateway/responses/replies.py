"""A reply of the Responses API as a Completion: its items as one message, by the dialect's own reader.

What the response says around its items stays in the completion's extra, nested as it came; of its usage what is not
counted. Its own id does not: the gateway's reply has one of its own, by which clients go on.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.carried import Open, Reader, joined, nested
from silva.models.endpoint import Endpoint
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.images import Images
from silva.models.gateway.dialects.responses.items import messages_of, output_of
from silva.models.gateway.dialects.responses.marks import AFTER, ITEM, PART, RESPONSES, mark_of
from silva.models.model import Completion
from silva.models.wire import SET_ASIDE, Count, Reported, WireError
from silva.tree import Json, Message, Part, TextPart, ToolCall

_FINISHES = {"max_output_tokens": "length", "content_filter": "content_filter"}


class _Cached(Open):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _Usage(Open):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    input_tokens_details: _Cached | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class Response(Open):
    """A response, whole or as an event of a stream holds it. The members without a reader are the gateway's to say."""

    id: Any = None
    object: Any = None
    created_at: Any = None
    background: Any = None
    instructions: Any = None
    previous_response_id: Any = None
    tools: Any = None
    output_text: Any = None
    status: str | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    model: str | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")
    usage: _Usage | None = None


read_response: Reader[Response] = Reader(Response)
"""Reads one."""


def completion(
    endpoint: Endpoint, response: Response, seconds: float, attempts: int, waited: float, aside: tuple[str, ...]
) -> Completion:
    """A response, read whole or put together, as a Completion; `aside` names the fields that were set aside.

    Raises:
        Reported: it failed.
        WireError: it has no output, or an item that cannot be read.
    """
    if response.error is not None:
        raise Reported(response.error)
    if response.status in ("failed", "cancelled"):
        raise Reported({"message": f"the response was {response.status}", "code": "server_error"})
    if bytes(response.output) == b"null":
        raise WireError("the reply has no output")
    message = message_of(response.output)
    counted = response.usage or _Usage()
    details = counted.input_tokens_details or _Cached()
    prompt, sampled = counted.input_tokens or 0, counted.output_tokens or 0
    cached, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    usage = joined(counted.extra, nested(input_tokens_details=details.extra))
    return Completion(
        message=message,
        finish_reason=_finish(response, message),
        logprobs=_logprobs(message),
        usage=endpoint.usage(prompt, sampled, cached, written, waited),
        model=response.model or endpoint.model,
        seconds=seconds,
        attempts=attempts,
        attributes={SET_ASIDE: list(aside)} if aside else {},
        extra=joined(response.extra, nested(usage=usage)),
        dialect=RESPONSES,
    )


def message_of(output: bytes | msgspec.Raw) -> Message:
    """The items of one reply as one message.

    Raises:
        WireError: an item cannot be read.
    """
    images: Images = {}
    try:
        found = messages_of(output_of(output), images, [])
    except Malformed as fault:
        place = fault.field.replace("input", "output", 1)
        raise WireError(f"the reply's {place or 'output'} cannot be read: {fault}") from fault
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for message in found:
        for call in message.tool_calls:
            place = len(parts) + mark_of(call.extra).get(AFTER, len(message.parts))
            calls.append(msgspec.structs.replace(call, extra={**(call.extra or {}), ITEM: _mark(call, place)}))
        parts += message.parts
    return Message(role="assistant", parts=tuple(parts), tool_calls=tuple(_trimmed(call, len(parts)) for call in calls))


def _mark(call: ToolCall, place: int) -> Json:
    return {**mark_of(call.extra), AFTER: place}


def _trimmed(call: ToolCall, parts: int) -> ToolCall:
    """A call without the place where all calls stand that nothing follows."""
    mark = mark_of(call.extra)
    if mark.get(AFTER) != parts:
        return call
    mark = {name: value for name, value in mark.items() if name != AFTER}
    extra = {**(call.extra or {}), ITEM: mark} if mark else {n: v for n, v in (call.extra or {}).items() if n != ITEM}
    return msgspec.structs.replace(call, extra=extra or None)


def _finish(response: Response, message: Message) -> str:
    why = response.incomplete_details
    if response.status == "incomplete" and why is not None and why.reason:
        return _FINISHES.get(why.reason, why.reason)
    return "tool_calls" if message.tool_calls else "stop"


def _logprobs(message: Message) -> tuple[float, ...]:
    """The log-probabilities of the reply's tokens, where it tells them."""
    found: list[float] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            entries: list[Json] = mark_of(part.extra, PART).get("logprobs") or []
            found += (float(entry["logprob"]) for entry in entries if isinstance(entry.get("logprob"), int | float))
    return tuple(found)
