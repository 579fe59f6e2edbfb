"""A Completion as a Chat Completions reply.

Token ids stand where vLLM puts them: `prompt_token_ids` beside the choices, `token_ids` in the choice. Logprobs carry
token texts and other tokens where `top_logprobs` asked for them and the backend speaks this API; else none ("" each),
for a Completion has none, and the ids say which token is meant.

What the provider said beyond that stands where it stood, where it came by this API.
"""

from __future__ import annotations

import msgspec

from silva.models.body import CHAT, usage_block, written_call, written_part
from silva.models.carried import merged
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.model import Completion
from silva.models.scores import entries
from silva.tree import ImagePart, Json, Message, OtherPart, TextPart, ThinkingPart, ToolCall, Usage

PREFIX = "chatcmpl-"

_FINISHES = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "function_call",
}

_encode = msgspec.json.Encoder().encode

_BEFORE = b'{"token":"","logprob":'
_BETWEEN = b',"bytes":null,"top_logprobs":[]},' + _BEFORE
_AFTER = b',"bytes":null,"top_logprobs":[]}'


def write(asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
    """The whole reply as JSON."""
    said = completion.message
    ours = completion.dialect == CHAT
    message: Json = {"role": "assistant", "content": _content(said, ours), "refusal": None}
    if thinking := said.thinking:
        message["reasoning_content"] = thinking
    legacy = "functions" in asked.echo
    if said.tool_calls:
        if legacy:
            message["function_call"] = function_of(said.tool_calls[0], ours)
        else:
            message["tool_calls"] = [written_call(call, ours) for call in said.tool_calls]
    if ours and said.extra:
        message = beside(message, said)
    choice: Json = {
        "index": 0,
        "message": message,
        "logprobs": logprobs_of(completion) if asked.wants_logprobs else None,
        "finish_reason": finish_of(completion, legacy),
    }
    body: Json = {
        "id": PREFIX + stamp.id,
        "object": "chat.completion",
        "created": stamp.created,
        "model": stamp.model,
        "choices": (choice,),
        "usage": usage_of(completion.usage),
        "policy_version": completion.policy_version or None,
    }
    if completion.policy_version:
        body["system_fingerprint"] = completion.policy_version
    if asked.wants_ids:
        choice["token_ids"] = sampled_ids(completion)
        body["prompt_token_ids"] = completion.prompt_ids
    if ours and completion.extra:
        around = dict(completion.extra)
        merged(choice, around.pop("choices", None))
        merged(body, around)
    body.setdefault("system_fingerprint", None)
    return _encode(body)


def beside(message: Json, said: Message) -> Json:
    """The message with its extra; where that says null of `reasoning` or `refusal`, the thinking or the text came by
    that name."""
    extra = dict(said.extra or {})
    if "reasoning" in extra and extra["reasoning"] is None:
        message["reasoning"] = said.thinking
    if "refusal" in extra:
        refused = extra.pop("refusal")
        message["refusal"] = said.text if refused is None else refused
        message["content"] = None if refused is None else message["content"]
    return merged(message, extra)


def _content(said: Message, ours: bool) -> str | list[Json] | None:
    """The text; the list of the parts where one of them says more than text or thinking."""
    if ours and any(isinstance(part, OtherPart) or (isinstance(part, TextPart) and part.extra) for part in said.parts):
        shown = (part for part in said.parts if not isinstance(part, ThinkingPart) or part.extra)
        return [written_part(part, True) for part in shown if not isinstance(part, ImagePart)]
    return said.text or (None if said.tool_calls else "")


def sampled_ids(completion: Completion) -> tuple[int, ...] | None:
    """The ids that were sampled, or None where the backend gave none."""
    tokens = completion.tokens
    if tokens is None:
        return None
    return tokens.ids if tokens.sampled == len(tokens.ids) else tokens.ids[len(tokens.ids) - tokens.sampled :]


def finish_of(completion: Completion, legacy: bool = False) -> str:
    """The finish reason in the API's words; what it has no word for is `tool_calls` or `stop`."""
    called = bool(completion.message.tool_calls)
    found = _FINISHES.get(completion.finish_reason) or ("tool_calls" if called else "stop")
    return "function_call" if legacy and found == "tool_calls" else found


def usage_of(usage: Usage) -> Json:
    """The usage block."""
    return usage_block(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.written_tokens)


def function_of(call: ToolCall, ours: bool = False) -> Json:
    """Name and arguments of a call, with what else was said of its function where that was said in this API."""
    written: Json = {"name": call.name, "arguments": call.arguments}
    return merged(written, call.extra.get("function")) if ours and call.extra else written


def logprobs_of(completion: Completion) -> msgspec.Raw | None:
    """The logprobs block, or None where there are none."""
    if said := entries(completion):
        return msgspec.Raw(_encode({"content": said, "refusal": None}))
    values = completion.logprobs or (completion.tokens.logprobs if completion.tokens is not None else ())
    if not values:
        return None
    return msgspec.Raw(b'{"content":' + logprob_entries(values) + b',"refusal":null}')


def logprob_entries(values: tuple[float, ...]) -> bytes:
    """The array of logprobs; what is not finite is written -9999.0, as vLLM does."""
    listed = _encode(values)[1:-1].replace(b"null", b"-9999.0")
    return b"[" + _BEFORE + listed.replace(b",", _BETWEEN) + _AFTER + b"]"
