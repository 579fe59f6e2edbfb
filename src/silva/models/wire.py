"""The OpenAI chat format as Silva reads it: the records of a reply, whole or in pieces. `stream` makes a Completion of
them, `body` holds the other direction.

Servers of Silva's own tell which weights answered in a field of theirs, `policy_version`. `system_fingerprint` is not
taken for that: with others (vLLM, llama.cpp, OpenAI) it names the server's build, which stays when the weights change.

Tool-call arguments pass through as the text the model wrote, valid JSON or not; a call without any (null, "", the word
null) has none: `{}`. Token ids and logprobs become `Completion.tokens` only when the server gave the ids themselves;
nothing is re-tokenised.

What the server says beyond that stays with what it says it of: of the message, its parts and calls in their `extra`; of
the reply, its usage and its choice in the completion's, `{…, "usage": {…}, "choices": {…}}` (there is one choice).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, cast

import msgspec

from silva.models.carried import Open, Reader, joined, nested
from silva.tree import ImagePart, Json, OtherPart, Part, TextPart, ThinkingPart, ToolCall

_encode = msgspec.json.Encoder().encode


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""How many there are, in what a server says."""

Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
"""A token, in what a server says."""


class WireError(ValueError):
    """A reply of the wrong shape, or a conversation that cannot be written."""


def bytes_of(part: ImagePart, images: Mapping[str, bytes]) -> bytes:
    """The bytes of a picture of a request.

    Raises:
        WireError: they are not there.
    """
    if (data := images.get(part.hash)) is None:
        raise WireError(f"image {part.hash[:12]} is in the conversation but its bytes are not in the request")
    return data


def data_url(data: bytes, media_type: str) -> str:
    """A picture as its own address."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


class WireFunction(Open):
    """What a call calls."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(Open):
    """A tool call of a reply, or a fragment of one in a stream (`index` says of which)."""

    function: WireFunction | None = None
    id: str | None = None
    index: int | None = None
    type: str | None = None


class _ContentPart(Open):
    type: str = "text"
    text: str | None = None

    def part(self) -> Part | None:
        """The part of a message; None where it is empty."""
        if self.type == "text":
            return TextPart(text=self.text or "", extra=self.extra) if self.text or self.extra else None
        return thought(self.extra) if self.type == "thinking" else other(self.type, self.text, self.extra)


class WireMessage(Open):
    """The `message` of a choice, or the `delta` of a streamed one."""

    role: str | None = None
    content: str | list[_ContentPart] | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None

    @property
    def parts(self) -> list[Part]:
        """What it says, whichever way the server wrote it; neighbouring texts that say nothing else are one."""
        thinking = self.reasoning_content or self.reasoning
        found: list[Part] = [ThinkingPart(text=thinking)] if thinking else []
        if not isinstance(self.content, list):
            text = self.content or self.refusal
            return [*found, TextPart(text=text)] if text else found
        for content in self.content:
            part = content.part()
            last = found[-1] if found else None
            if isinstance(part, TextPart) and isinstance(last, TextPart) and not part.extra and not last.extra:
                found[-1] = TextPart(text=last.text + part.text)
            elif part is not None:
                found.append(part)
        return found

    @property
    def calls(self) -> list[WireCall]:
        """The calls, that of the old field `function_call` among them."""
        if self.function_call is not None and not self.tool_calls:
            return [WireCall(function=self.function_call, extra=None)]
        return self.tool_calls or []

    @property
    def beside(self) -> Json | None:
        """Its extra. Under `reasoning` and `refusal` null stands for the thinking or the text, which came by that
        name."""
        found = self.extra
        if self.reasoning:
            again = not self.reasoning_content or self.reasoning_content == self.reasoning
            found = joined(found, {"reasoning": None if again else self.reasoning})
        if self.refusal:
            found = joined(found, {"refusal": self.refusal if self.content else None})
        return found


def thought(said: Json | None) -> ThinkingPart:
    """The part of a content list whose type is `thinking`: its words under `thinking`, as text or a list of texts."""
    extra = dict(said or {})
    value: Any = extra.pop("thinking", None)
    words: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    texts: list[str] = []
    for word in words:
        text: Any = cast("Json", word).get("text") if isinstance(word, dict) else word
        texts.append(text if isinstance(text, str) else "")
    signature = extra.get("signature")
    proof = signature if isinstance(signature, str) else None
    return ThinkingPart(text="".join(texts), signature=proof, extra={"type": "thinking", **extra})


def other(kind: str, text: str | None, extra: Json | None) -> OtherPart:
    """A part of a kind that nobody here knows."""
    return OtherPart(written={"type": kind} | ({} if text is None else {"text": text}) | (extra or {}))


class _LogProb(msgspec.Struct, gc=False):
    logprob: float


class WireLogProbs(msgspec.Struct, gc=False):
    """Log-probabilities of the sampled tokens, in order."""

    content: list[_LogProb] | None = None


class _Choice(Open):
    message: WireMessage | None = None
    delta: WireMessage | None = None
    index: int | None = None
    finish_reason: str | None = None
    logprobs: WireLogProbs | None = None
    token_ids: list[Id] | None = None


class _Details(Open):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class WireUsage(Open):
    """Tokens billed. Providers tell of their cache in `prompt_tokens_details`, or beside it by names of their own."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: Count | None = None
    prompt_cache_miss_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None

    @property
    def cached(self) -> int:
        """Prompt tokens that were read from the provider's cache."""
        details = self.prompt_tokens_details
        told = details.cached_tokens if details is not None else None
        return told or self.prompt_cache_hit_tokens or self.cache_read_input_tokens or 0

    @property
    def written(self) -> int:
        """Prompt tokens that were written to it."""
        details = self.prompt_tokens_details
        told = details.cache_write_tokens if details is not None else None
        return told or self.cache_creation_input_tokens or 0

    @property
    def beside(self) -> Json | None:
        """What it says beyond what a `Usage` holds."""
        found, details = self.extra, self.prompt_tokens_details
        if details is not None and details.extra:
            found = joined(found, {"prompt_tokens_details": details.extra})
        told = _by_other_names(self)
        if told != _NO_NAMES:
            found = joined({n: v for n, v in zip(_OTHER_NAMES, told, strict=True) if v is not None}, found)
        return found


_OTHER_NAMES = (
    "prompt_cache_hit_tokens",
    "prompt_cache_miss_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_by_other_names = attrgetter(*_OTHER_NAMES)
_NO_NAMES = (None,) * len(_OTHER_NAMES)


class WireReply(Open):
    """A reply: whole, or a piece of one, whose choice then has a `delta` in the place of its `message`."""

    choices: list[_Choice] | None = None
    id: Any = None
    object: Any = None
    created: Any = None
    system_fingerprint: Any = None
    model: str | None = None
    usage: WireUsage | None = None
    prompt_token_ids: list[Id] | None = None
    policy_version: str | None = None
    error: Any = None

    @property
    def around(self) -> Json | None:
        """What it says beyond its choices that nobody here reads."""
        if self.extra is None and self.system_fingerprint is None and self.usage is None:
            return None
        found = self.extra
        if self.system_fingerprint is not None:
            found = joined(found, {"system_fingerprint": self.system_fingerprint})
        if self.usage is not None and (counted := self.usage.beside):
            found = joined(found, {"usage": counted})
        return found


read_reply: Reader[WireReply] = Reader(WireReply)
"""Reads one."""


class Reported(Exception):
    """An error the server put into a reply of status 200; `value` is its decoded `error`."""

    def __init__(self, value: Any) -> None:
        super().__init__("the server put an error into its reply")
        self.value = value


def to_call(call: WireCall, position: int) -> ToolCall:
    """A tool call as a record; one without an id is named by its position.

    Raises:
        WireError: it has no function name.
    """
    function = call.function
    if function is None or not function.name:
        raise WireError("a tool call has no function name")
    arguments = function.arguments
    raw = arguments if isinstance(arguments, str) else _encode(arguments or {}).decode()
    if len(raw) <= LONGEST_NOTHING and raw.strip() in ("", "null"):
        raw = "{}"
    extra = joined(call.extra, nested(function=function.extra)) if call.extra or function.extra else None
    if call.type not in (None, "function"):
        extra = joined(extra, {"type": call.type})
    return ToolCall(id=call.id or f"call_{position}", name=function.name, arguments=raw, extra=extra)


LONGEST_NOTHING = 16
"""Characters in which a server may say that a call has no arguments."""


SET_ASIDE = "set_aside"
"""The attribute of a completion that names what of the reply did not fit and was not needed."""
