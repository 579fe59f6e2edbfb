"""A chat request as a server reads it, and a reply as it writes it: whole, or as server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from silva.models.body import usage_block, written_call
from silva.tree import Json, ToolCall

_encode = msgspec.json.Encoder().encode


class CallFunction(msgspec.Struct, frozen=True):
    """Name and raw arguments of a call in the history."""

    name: str
    arguments: str = "{}"


class HistoryCall(msgspec.Struct, frozen=True):
    """A tool call an earlier assistant message made."""

    function: CallFunction
    id: str = ""


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of the conversation sent in."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[HistoryCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """The words; images are left out."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(part.get("text", "")) for part in self.content or () if part.get("type") == "text")

    @property
    def fact(self) -> tuple[str, str, list[tuple[str, str]]]:
        """What it says, to be told apart by: its role, its words, its calls."""
        return self.role, self.text, [(call.function.name, call.function.arguments) for call in self.tool_calls or ()]


class ToolFunction(msgspec.Struct, frozen=True):
    """What a tool offers."""

    name: str
    description: str | None = None
    parameters: Json | None = None


class ChatTool(msgspec.Struct, frozen=True):
    """A tool the model may call."""

    function: ToolFunction


class ChatRequest(msgspec.Struct, frozen=True):
    """A chat completion asked for; only the fields Silva's servers act on are decoded, and those after `n`, which a
    model that samples must refuse unless they have their neutral value (`NOT_OFFERED`). The scripted model says what
    its script says, whatever they are."""

    messages: list[ChatMessage]
    model: str = ""
    tools: list[ChatTool] = []
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    return_token_ids: bool | None = None
    tool_choice: Any = None
    n: int | None = None

    response_format: Any = None
    min_p: Any = None
    logit_bias: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    repetition_penalty: Any = None
    min_tokens: Any = None
    stop_token_ids: Any = None
    allowed_token_ids: Any = None
    bad_words: Any = None
    ignore_eos: Any = None
    structured_outputs: Any = None
    chat_template: Any = None
    chat_template_kwargs: Any = None
    functions: Any = None
    function_call: Any = None

    @property
    def turn(self) -> int:
        """How many assistant messages it holds: 0 asks for the first reply."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def bound(self) -> int | None:
        """The most tokens the reply may have, under either name."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


NOT_OFFERED = ChatRequest.__struct_fields__[ChatRequest.__struct_fields__.index("response_format") :]


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply. A call without an id is named by its place. `ids` and `logprobs` are of the sampled tokens; `pieces`
    their texts, for the logprobs block. `fingerprint` names the weights, so it is told as their policy version, too."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    pieces: tuple[str, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    model: str = ""
    fingerprint: str | None = None

    def message(self) -> Json:
        """The message block."""
        body: Json = {"role": "assistant", "content": self.text or (None if self.tool_calls else "")}
        if self.thinking:
            body["reasoning_content"] = self.thinking
        if self.tool_calls:
            body["tool_calls"] = self.calls()
        return body

    def calls(self) -> list[Json]:
        """The tool calls, an id given to those without; an id need only be unique within its reply."""
        return [
            written_call(call, False) | {"id": call.id or f"call_{index}"} for index, call in enumerate(self.tool_calls)
        ]

    def logprob_block(self) -> Json | None:
        """The logprobs block, or None where there are none."""
        if not self.logprobs:
            return None
        pieces = self.pieces or ("",) * len(self.logprobs)
        pairs = zip(pieces, self.logprobs, strict=True)
        return {
            "content": [{"token": token, "logprob": value, "bytes": None, "top_logprobs": []} for token, value in pairs]
        }

    def encode(self, request: ChatRequest) -> bytes:
        """The reply as one JSON body; ids and logprobs only where the request asks for them."""
        choice: Json = {"index": 0, "message": self.message(), "finish_reason": self.finish_reason}
        head = {"id": "chatcmpl-silva", "object": "chat.completion", "created": 0, "model": self.model}
        return _encode({**head, "choices": [choice], **self._told(request, choice)})

    def _told(self, request: ChatRequest, choice: Json) -> Json:
        """What stands beside the choices; what of the choice itself was asked for is added to it."""
        if request.logprobs:
            choice["logprobs"] = self.logprob_block()
        told: Json = {
            "usage": usage_block(self.prompt_tokens, self.completion_tokens, self.cached_tokens),
            "system_fingerprint": self.fingerprint,
            "policy_version": self.fingerprint,
        }
        if request.return_token_ids:
            choice["token_ids"] = self.ids
            told["prompt_token_ids"] = self.prompt_ids
        return told

    def events(self, request: ChatRequest, pieces: Iterator[str] | None = None) -> Iterator[bytes]:
        """The reply as server-sent events, its text in the given pieces (default: one)."""
        if self.thinking:
            yield self.event({"reasoning_content": self.thinking})
        for piece in (self.text,) if pieces is None else pieces:
            if piece:
                yield self.event({"content": piece})
        yield from self.closing_events(request)

    def closing_events(self, request: ChatRequest) -> Iterator[bytes]:
        """What follows the text: tool calls, ids and logprobs, the finish reason, usage, and the end."""
        if self.tool_calls:
            yield self.event({"tool_calls": [{"index": i, **call} for i, call in enumerate(self.calls())]})
        last: Json = {"index": 0, "delta": {}, "finish_reason": self.finish_reason}
        tail = self._told(request, last)
        yield self._frame({"choices": [last]})
        yield self._frame({"choices": [], **tail})
        yield b"data: [DONE]\n\n"

    def event(self, delta: Json) -> bytes:
        """One event that adds `delta` to the message."""
        return self._frame({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    def _frame(self, body: Json) -> bytes:
        head = {"id": "chatcmpl-silva", "object": "chat.completion.chunk", "created": 0, "model": self.model}
        return b"data: " + _encode({**head, **body}) + b"\n\n"
