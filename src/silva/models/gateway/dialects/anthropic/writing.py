"""A Completion as an Anthropic message.

Arguments of a tool call that are not a JSON object are sent as `{"_raw": "…"}`, for `input` must be one; sent back,
they are the text again.
"""

from __future__ import annotations

import msgspec

from silva.models.anthropic.blocks import block_of, tool_use
from silva.models.anthropic.marks import ANTHROPIC, STOP_SEQUENCE
from silva.models.carried import merged
from silva.models.gateway.dialects.chat.writing import sampled_ids
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.model import Completion
from silva.tree import Json, OtherPart, Part, Usage

PREFIX = "msg_"

_STOPS = {
    "length": "max_tokens",
    "content_filter": "refusal",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "pause_turn": "pause_turn",
}

_encode = msgspec.json.Encoder().encode


def write(asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
    """The whole reply as JSON."""
    said = completion.message
    ours = completion.dialect == ANTHROPIC
    content = [block for part in said.parts if (block := _block(part, ours)) is not None]
    content += [tool_use(call, call.extra if ours else None) for call in said.tool_calls]
    body = message(stamp, content, usage_of(completion.usage)) | stop_of(asked, completion)
    body |= ids_of(asked, completion)
    return _encode(merged(body, completion.extra) if ours else body)


def _block(part: Part, ours: bool) -> Json | None:
    if isinstance(part, OtherPart):
        return part.written if ours else None
    return block_of(part, part.extra if ours else None)


def message(stamp: Stamp, content: list[Json], usage: Json) -> Json:
    """The message object, as it is before the model has stopped."""
    return {
        "id": PREFIX + stamp.id,
        "type": "message",
        "role": "assistant",
        "model": stamp.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def stop_of(asked: Asked, completion: Completion) -> Json:
    """Why the model stopped. The stop sequence it met is told where the backend told it, or only one was asked for."""
    reason = _STOPS.get(completion.finish_reason)
    if reason is None:
        reason = "tool_use" if completion.message.tool_calls else "end_turn"
    stops = asked.sampling.stop
    if reason != "stop_sequence":
        return {"stop_reason": reason, "stop_sequence": None}
    met = completion.attributes.get(STOP_SEQUENCE) or (stops[0] if len(stops) == 1 else None)
    return {"stop_reason": reason, "stop_sequence": met}


def usage_of(usage: Usage) -> Json:
    """The usage block: cached tokens are counted apart from the input."""
    return {
        "input_tokens": max(usage.prompt_tokens - usage.cached_tokens - usage.written_tokens, 0),
        "cache_creation_input_tokens": usage.written_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }


def ids_of(asked: Asked, completion: Completion) -> Json:
    """Token ids, in fields of their own, where the client asked for them."""
    if not asked.wants_ids:
        return {}
    return {"token_ids": sampled_ids(completion), "prompt_token_ids": completion.prompt_ids}
