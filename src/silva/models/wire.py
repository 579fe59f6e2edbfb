"""The OpenAI chat format as Silva reads it: reply bytes to a Completion. `body` holds the other direction.

Servers of Silva's own tell which weights answered in a field of theirs, `policy_version`. `system_fingerprint` is not
taken for that: with others (vLLM, llama.cpp, OpenAI) it names the server's build, which stays when the weights change.

Tool-call arguments pass through as the text the model wrote, valid JSON or not. Token ids and logprobs become
`Completion.tokens` only when the server gave the ids themselves; nothing is re-tokenised.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from silva.models.endpoint import Endpoint
from silva.models.model import Completion
from silva.tree import Message, Part, TextPart, ThinkingPart, Tokens, ToolCall, Usage

_encode = msgspec.json.Encoder().encode


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""How many there are, in what a server says."""

Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
"""A token, in what a server says."""


class WireError(ValueError):
    """A reply of the wrong shape, or a conversation that cannot be written."""


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(msgspec.Struct, gc=False):
    """A tool call of a reply, or a fragment of one in a stream (`index` says of which)."""

    function: _Function
    id: str | None = None
    index: int = 0


class _ContentPart(msgspec.Struct, gc=False):
    type: str = "text"
    text: str | None = None


class WireMessage(msgspec.Struct, gc=False):
    """The `message` of a choice, or the `delta` of a streamed one."""

    content: str | list[_ContentPart] | None = None
    tool_calls: list[WireCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        """The words, whichever way the server wrote them."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or self.refusal or ""

    @property
    def thinking(self) -> str:
        """The reasoning, under either of its two names."""
        return self.reasoning_content or self.reasoning or ""


class _LogProb(msgspec.Struct, gc=False):
    logprob: float


class WireLogProbs(msgspec.Struct, gc=False):
    """Log-probabilities of the sampled tokens, in order."""

    content: list[_LogProb] | None = None


class _Choice(msgspec.Struct, gc=False):
    message: WireMessage
    finish_reason: str | None = None
    logprobs: WireLogProbs | None = None
    token_ids: tuple[Id, ...] | None = None


class _Details(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None


class WireUsage(msgspec.Struct, gc=False):
    """Tokens billed."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None


class _Reply(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: WireUsage | None = None
    prompt_token_ids: tuple[Id, ...] | None = None
    policy_version: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Reply).decode
_logprob = attrgetter("logprob")


class Reported(Exception):
    """An error the server put into a reply of status 200; `value` is its decoded `error`."""

    def __init__(self, value: Any) -> None:
        super().__init__("the server put an error into its reply")
        self.value = value


def decode_reply(body: bytes, endpoint: Endpoint, seconds: float, attempts: int, waited: float) -> Completion:
    """Read one reply.

    Args:
        body: the JSON of the response.
        endpoint: where it came from, for names and prices.
        seconds: wall time of the attempt that succeeded.
        attempts: how many attempts were made.
        waited: seconds spent on this call in all, recorded as model time.

    Raises:
        Reported: the server put an error into it.
        WireError: it is not what a chat completion looks like.
        msgspec.DecodeError: it is not JSON, or a field has the wrong type.
    """
    reply = _decode(body)
    if reply.error is not None:
        raise Reported(reply.error)
    if not reply.choices:
        raise WireError("the reply has no choices")
    choice = reply.choices[0]
    calls = choice.message.tool_calls
    return completion(
        endpoint,
        text=choice.message.text,
        thinking=choice.message.thinking,
        calls=tuple(to_call(call, position) for position, call in enumerate(calls)) if calls else (),
        finish_reason=choice.finish_reason,
        ids=choice.token_ids,
        logprobs=None if choice.logprobs is None or not choice.logprobs.content else choice.logprobs.content,
        prompt_ids=reply.prompt_token_ids,
        usage=reply.usage,
        model=reply.model,
        version=reply.policy_version,
        seconds=seconds,
        attempts=attempts,
        waited=waited,
    )


def to_call(call: WireCall, position: int) -> ToolCall:
    """A tool call as a record; one without an id is named by its position.

    Raises:
        WireError: it has no function name.
    """
    if not call.function.name:
        raise WireError("a tool call has no function name")
    arguments = call.function.arguments
    raw = arguments if isinstance(arguments, str) else _encode(arguments or {}).decode()
    return ToolCall(id=call.id or f"call_{position}", name=call.function.name, arguments=raw)


def completion(
    endpoint: Endpoint,
    *,
    text: str,
    thinking: str,
    calls: tuple[ToolCall, ...],
    finish_reason: str | None,
    ids: Sequence[int] | None,
    logprobs: list[_LogProb] | None,
    prompt_ids: Sequence[int] | None,
    usage: WireUsage | None,
    model: str | None,
    version: str | None,
    seconds: float,
    attempts: int,
    waited: float,
) -> Completion:
    """Assemble a Completion from what a reply or a stream gave.

    Raises:
        WireError: the server gave another number of logprobs than of token ids.
    """
    parts: tuple[Part, ...] = (TextPart(text=text),) if text else ()
    if thinking:
        parts = (ThinkingPart(text=thinking), *parts)
    tokens = None
    values = tuple(map(_logprob, logprobs)) if logprobs else ()
    if ids:
        if values and len(values) != len(ids):
            raise WireError(f"the reply has {len(ids)} token ids but {len(values)} logprobs")
        tokens = Tokens(ids=tuple(ids), sampled=len(ids), logprobs=values)
    prompt_count = completion_count = cached = 0
    if usage is not None:
        prompt_count, completion_count = usage.prompt_tokens or 0, usage.completion_tokens or 0
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details is not None else 0
    return Completion(
        message=Message(role="assistant", parts=parts, tool_calls=calls),
        finish_reason=finish_reason or ("tool_calls" if calls else "unknown"),
        tokens=tokens,
        prompt_ids=tuple(prompt_ids) if prompt_ids else (),
        logprobs=values,
        usage=Usage(
            prompt_tokens=prompt_count,
            completion_tokens=completion_count,
            cached_tokens=cached,
            usd=endpoint.usd(prompt_count, completion_count, cached),
            model_seconds=waited,
        ),
        model=model or endpoint.model,
        policy_version=version or "",
        seconds=seconds,
        attempts=attempts,
    )
