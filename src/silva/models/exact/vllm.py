"""vLLM's `/v1/completions` with token ids both ways, which Silva's own local server speaks, too.

    {"prompt": [ids], "return_token_ids": true, "logprobs": 1} ─▶ choices[0].token_ids, .prompt_token_ids, .logprobs

A prompt of ids carries no images here: they are refused by name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.exact.backend import Draw, Piece
from silva.models.exact.gathering import Gathering, GatheringBackend
from silva.models.failure import Failures
from silva.models.wire import Count, Id
from silva.tree import Json

PATH = "/v1/completions"

_NAMES = {name: name for name in ("temperature", "top_p", "top_k", "seed", "stop")}


class _LogProbs(msgspec.Struct):
    token_logprobs: list[float | None] | None = None


class _Choice(msgspec.Struct):
    token_ids: list[Id] | None = None
    prompt_token_ids: list[Id] | None = None
    logprobs: _LogProbs | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] = []
    model: str = ""
    usage: _Usage | None = None
    prompt_token_ids: list[Id] | None = None
    system_fingerprint: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Reply).decode


class VllmBackend(GatheringBackend):
    """A `NativeBackend` behind vLLM. The arguments are as in `Caller`.

    Its fingerprint names the server's build, not the weights; so the policy version is the name it answers under: that
    of the adapter, where one is asked for.
    """

    fingerprint_is_version = False

    path = PATH

    def _gathering(self) -> Gathering:
        return _Gathered(self.failures, self.fingerprint_is_version)

    def _body(self, draw: Draw, stream: bool) -> bytes:
        sampling = draw.sampling
        if draw.images:
            raise self.failures.make(
                "refused", "its completions take ids but no images", "use an sglang backend for images"
            )
        body: Json = {
            "model": self.endpoint.model,
            "prompt": draw.prompt_ids,
            "max_tokens": sampling.max_tokens,  # null: as many as the context has room for
            "return_token_ids": True,
        }
        if draw.stop_ids:
            body["stop_token_ids"] = draw.stop_ids
        if sampling.logprobs:
            body["logprobs"] = 1
        body |= sampling.named(_NAMES)
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= self.endpoint.extra | sampling.extra
        return msgspec.json.encode(body | {"prompt": draw.prompt_ids, "return_token_ids": True})


class SilvaBackend(VllmBackend):
    """A `NativeBackend` behind Silva's local server, whose fingerprint names weights and adapter."""

    fingerprint_is_version = True


class _Gathered(Gathering):
    def __init__(self, failures: Failures, fingerprint_is_version: bool) -> None:
        super().__init__(failures)
        self._fingerprint_is_version = fingerprint_is_version
        self._told: list[float | None] | None = None

    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one; see `Gathering`."""
        reply = _decode(data)
        if reply.error is not None:
            raise self._failures.reported(reply.error)
        if (usage := reply.usage) is not None:
            self._counted = usage.prompt_tokens, usage.completion_tokens
            self._cached = (usage.prompt_tokens_details or _Details()).cached_tokens or 0
        self._model = reply.model or self._model
        self._version = (reply.system_fingerprint if self._fingerprint_is_version else self._model) or self._version
        if not reply.choices:
            return None
        choice = reply.choices[0]
        prompt = reply.prompt_token_ids if choice.prompt_token_ids is None else choice.prompt_token_ids
        self._prompt = self._prompt if prompt is None else prompt
        self._finish = choice.finish_reason or self._finish
        if choice.logprobs is not None and choice.logprobs.token_logprobs is not None:
            self._told = [*(self._told or []), *choice.logprobs.token_logprobs]
        ids = choice.token_ids or []
        self._ids += ids
        return Piece(ids=tuple(ids)) if ids else None

    def _logprobs(self) -> list[float | None] | None:
        return self._told
