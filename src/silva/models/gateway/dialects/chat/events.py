"""A streamed Chat Completions reply: chunks.

begin ─▶ role     delta ─▶ content, reasoning_content     end ─▶ tool calls, finish (ids, logprobs), usage, [DONE]
"""

from __future__ import annotations

import msgspec

from silva.models.body import CHAT, written_call
from silva.models.carried import merged
from silva.models.gateway.dialects.chat.writing import (
    PREFIX,
    finish_of,
    function_of,
    logprobs_of,
    sampled_ids,
    usage_of,
)
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.openai_errors import error_body
from silva.models.gateway.dialects.said import Said
from silva.models.model import Completion, Delta
from silva.tree import Json

_encode = msgspec.json.Encoder().encode

_DONE = b"data: [DONE]\n\n"


class ChatEvents:
    """Writes one streamed reply."""

    def __init__(self, asked: Asked, stamp: Stamp) -> None:
        self._asked = asked
        self._said = Said()
        head = {
            "id": PREFIX + stamp.id,
            "object": "chat.completion.chunk",
            "created": stamp.created,
            "model": stamp.model,
        }
        self._head = b"data: " + _encode(head)[:-1]
        self._usage = b',"usage":null' if asked.wants_usage else b""

    def begin(self) -> bytes:
        """The first chunk, with the role."""
        return self._piece({"role": "assistant", "content": ""})

    def delta(self, delta: Delta) -> bytes:
        """A chunk of text or thinking."""
        self._said.add(delta.text, delta.thinking)
        if delta.extra is not None and delta.dialect == CHAT:
            return self._more(delta, delta.extra)
        piece: Json = {}
        if delta.thinking:
            piece["reasoning_content"] = delta.thinking
        if delta.text:
            piece["content"] = delta.text
        return self._piece(piece) if piece else b""

    def end(self, completion: Completion) -> bytes:
        """What is left: text not given yet, tool calls, finish reason, ids, usage, and the end mark."""
        text, thinking = self._said.rest(completion.message)
        written = [self.delta(Delta(text=text, thinking=thinking))]
        calls = completion.message.tool_calls
        legacy = "functions" in self._asked.echo
        ours = completion.dialect == CHAT
        if calls and legacy:
            written.append(self._piece({"function_call": function_of(calls[0], ours)}))
        elif calls:
            listed = [{"index": place, **call} for place, call in enumerate(written_call(each, ours) for each in calls)]
            written.append(self._piece({"tool_calls": listed}))
        choice: Json = {
            "index": 0,
            "delta": {},
            "logprobs": logprobs_of(completion) if self._asked.wants_logprobs else None,
            "finish_reason": finish_of(completion, legacy),
        }
        version = completion.policy_version or None
        tail: Json = {"choices": (choice,), "system_fingerprint": version, "policy_version": version}
        if self._asked.wants_ids:
            choice["token_ids"] = sampled_ids(completion)
            tail["prompt_token_ids"] = completion.prompt_ids
        written.append(self._head + self._usage + b"," + _encode(tail)[1:] + b"\n\n")
        if self._asked.wants_usage:
            usage = usage_of(completion.usage)
            if ours and completion.extra:
                usage = merged(usage, completion.extra.get("usage"))
            last = {"choices": (), "usage": usage}
            written.append(self._head + b"," + _encode(last)[1:] + b"\n\n")
        written.append(_DONE)
        return b"".join(written)

    def error(self, status: int, kind: str, message: str) -> bytes:
        """An event with the error; no end mark follows."""
        return b"data: " + error_body(status, kind, message) + b"\n\n"

    def _more(self, delta: Delta, extra: Json) -> bytes:
        """A chunk that says more than words, as the provider's did; what it says of usage stands in the last one."""
        around = {name: value for name, value in extra.items() if name not in ("choices", "usage")}
        of_choice: Json = dict(extra.get("choices") or {})
        piece: Json = {}
        if delta.thinking:
            piece["reasoning_content"] = delta.thinking
        if delta.text:
            piece["content"] = delta.text
        more: Json = dict(of_choice.pop("delta", None) or {})
        if "reasoning" in more and more["reasoning"] is None:
            more["reasoning"] = delta.thinking
        if "refusal" in more and more["refusal"] is None:
            more["refusal"] = piece.pop("content", "")
        written: list[bytes] = []
        if "content" in piece and "content" in more:
            written.append(self._piece({"content": piece.pop("content")}))
        piece = merged(piece, more)
        if piece or around or of_choice:
            choice = merged({"index": 0, "delta": piece, "logprobs": None, "finish_reason": None}, of_choice)
            body = merged({"choices": (choice,)}, around)
            written.append(self._head + self._usage + b"," + _encode(body)[1:] + b"\n\n")
        return b"".join(written)

    def _piece(self, delta: Json) -> bytes:
        choices = b',"choices":[{"index":0,"delta":' + _encode(delta) + b',"logprobs":null,"finish_reason":null}]}\n\n'
        return self._head + self._usage + choices
