"""A text completion as a server reads and writes it: `/v1/completions` in the dialect of vLLM.

The prompt is a list of token ids (or a string), the reply gives the ids back: nothing on the way is tokenised twice.

    CompletionRequest ─▶ the server samples ─▶ CompletionReply ─▶ one JSON body, or events of `part`s

A field that would change the reply and that no server of ours acts on is refused, not ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.body import usage_block
from silva.models.failure import UNREADABLE
from silva.models.serving.exchange import Refusal
from silva.models.serving.offered import check_offered
from silva.tree import Json

_encode = msgspec.json.Encoder().encode

DEFAULT_MOST = 16
"""Tokens of a reply whose request sets no bound, as OpenAI and vLLM have it."""

MOST_TOPS = 20
"""Most alternatives a request may ask for at every token."""


class StreamOptions(msgspec.Struct, frozen=True):
    """`stream_options`: whether a last event tells the usage."""

    include_usage: bool | None = None


class CompletionRequest(msgspec.Struct, frozen=True):
    """A completion asked for. The fields after `return_tokens_as_token_ids` must have their neutral value. `max_tokens`
    of null is as vLLM has it: as many as the context has room for, where none at all is `DEFAULT_MOST`."""

    prompt: str | list[int | str | list[int]] | None = None
    model: str | None = None
    max_tokens: int | None = DEFAULT_MOST
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    skip_special_tokens: bool = True
    add_special_tokens: bool = True
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None

    n: int | None = None
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    min_tokens: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None
    prompt_logprobs: int | None = None
    use_beam_search: bool | None = None
    include_stop_str_in_output: bool | None = None
    allowed_token_ids: list[int] | None = None
    logprob_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    truncate_prompt_tokens: int | None = None
    response_format: Any = None
    structured_outputs: Any = None
    prompt_embeds: Any = None

    @property
    def stops(self) -> list[str]:
        """The strings that end the reply."""
        return [stop for stop in ([self.stop] if isinstance(self.stop, str) else self.stop or ()) if stop]


_OFF = CompletionRequest.__struct_fields__[CompletionRequest.__struct_fields__.index("n") :]

_decode = msgspec.json.Decoder(CompletionRequest).decode


def read_completion(body: bytes) -> CompletionRequest:
    """Decode a request.

    Raises:
        Refusal: it is not a completion, or asks for what no server of ours does.
    """
    try:
        request = _decode(body)
    except UNREADABLE as fault:
        raise Refusal(400, f"the request is not a completion: {fault}") from fault
    check_offered(request, _OFF)
    if request.logprobs is not None and not 0 <= request.logprobs <= MOST_TOPS:
        raise Refusal(400, f"logprobs must lie in [0, {MOST_TOPS}]")
    if request.max_tokens is not None and request.max_tokens < 1:
        raise Refusal(400, "max_tokens must be at least 1")
    return request


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """Some tokens of a reply, in order: ids, texts, log-probabilities and the likeliest others (text, logprob)."""

    ids: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()
    tops: tuple[tuple[tuple[str, float], ...], ...] = ()

    def block(self, offset: int = 0) -> Json:
        """The `logprobs` block; `offset` is where the first token's text begins in the reply."""
        offsets: list[int] = []
        for piece in self.pieces:
            offsets.append(offset)
            offset += len(piece)
        tops = self.tops or ((),) * len(self.ids)
        chosen = zip(self.pieces, self.logprobs, tops, strict=True)
        return {
            "text_offset": offsets,
            "token_logprobs": list(self.logprobs),
            "tokens": list(self.pieces),
            "top_logprobs": [{**dict(top), piece: logprob} for piece, logprob, top in chosen],
        }


class CompletionReply(msgspec.Struct, frozen=True, kw_only=True):
    """A finished completion. `stop_reason` is the stop string or id that ended it, None at the model's own end."""

    text: str
    sampled: Sampled
    prompt_ids: tuple[int, ...]
    finish_reason: str
    stop_reason: str | int | None
    cached_tokens: int
    model: str
    fingerprint: str

    def usage(self) -> Json:
        """The usage block."""
        return usage_block(len(self.prompt_ids), len(self.sampled.ids), self.cached_tokens)

    def encode(self, request: CompletionRequest) -> bytes:
        """The reply as one JSON body; ids and logprobs only where the request asks for them."""
        choice = _choice(request, self.text, self.sampled, 0, self.prompt_ids, self)
        return _encode(
            {**head(self.model), "choices": [choice], "usage": self.usage(), "system_fingerprint": self.fingerprint}
        )


def head(model: str) -> Json:
    """What every body and event begins with."""
    return {"id": "cmpl-silva", "object": "text_completion", "created": 0, "model": model}


def part(
    request: CompletionRequest,
    model: str,
    text: str,
    sampled: Sampled,
    offset: int,
    prompt_ids: tuple[int, ...] | None = None,
    ended: CompletionReply | None = None,
) -> bytes:
    """One event of a stream: the text and tokens since the last; the prompt with the first, how it ended with the last.

    Args:
        request: says what to show.
        model: the name it was asked under.
        text: may lag behind the tokens, where later ones could still change it.
        sampled: the new tokens.
        offset: where the first of them begins in the text.
        prompt_ids: for the first event.
        ended: for the last.
    """
    body: Json = {**head(model), "choices": [_choice(request, text, sampled, offset, prompt_ids, ended)]}
    if ended is not None:
        body["system_fingerprint"] = ended.fingerprint
    return frame(body)


def _choice(
    request: CompletionRequest,
    text: str,
    sampled: Sampled,
    offset: int,
    prompt_ids: tuple[int, ...] | None,
    ended: CompletionReply | None,
) -> Json:
    choice: Json = {
        "index": 0,
        "text": text,
        "logprobs": None if request.logprobs is None else sampled.block(offset),
        "finish_reason": ended and ended.finish_reason,
        "stop_reason": ended and ended.stop_reason,
    }
    if request.return_token_ids:
        choice["token_ids"] = sampled.ids
        if prompt_ids is not None:
            choice["prompt_token_ids"] = prompt_ids
    return choice


def frame(body: Json) -> bytes:
    """One server-sent event."""
    return b"data: " + _encode(body) + b"\n\n"


def closing_events(request: CompletionRequest, reply: CompletionReply) -> bytes:
    """What ends a stream: the usage where it was asked for, and the end mark."""
    usage = b""
    if request.stream_options is not None and request.stream_options.include_usage:
        body = {**head(reply.model), "choices": [], "usage": reply.usage(), "system_fingerprint": reply.fingerprint}
        usage = frame(body)
    return usage + b"data: [DONE]\n\n"
