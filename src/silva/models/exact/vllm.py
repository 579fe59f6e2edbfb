"""vLLM's `/v1/completions` with token ids both ways, which Silva's own local server speaks, too.

    {"prompt": [ids], "return_token_ids": true, "logprobs": 1} ─▶ choices[0].token_ids, .prompt_token_ids, .logprobs

A prompt of ids carries no images here: they are refused by name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.calling import Timing
from silva.models.exact.backend import Draw, Piece, Sampled, check_counts, check_drawn, check_prompt
from silva.models.exact.gathering import Gathering, GatheringBackend
from silva.models.failure import Failures
from silva.models.wire import Count, Id
from silva.tree import Json

PATH = "/v1/completions"


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
        for key in ("temperature", "top_p", "top_k", "seed"):
            if (value := getattr(sampling, key)) is not None:
                body[key] = value
        if sampling.stop:
            body["stop"] = sampling.stop
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= self.endpoint.extra | sampling.extra
        return msgspec.json.encode(body | {"prompt": draw.prompt_ids, "return_token_ids": True})


class SilvaBackend(VllmBackend):
    """A `NativeBackend` behind Silva's local server, whose fingerprint names weights and adapter."""

    fingerprint_is_version = True


class _Gathered:
    """What a reply has said so far, whole or in pieces."""

    def __init__(self, failures: Failures, fingerprint_is_version: bool) -> None:
        self._fingerprint_is_version = fingerprint_is_version
        self._failures = failures
        self._ids: list[int] = []
        self._logprobs: list[float | None] | None = None
        self._prompt: list[int] | None = None
        self._usage = _Usage()
        self._finish = ""
        self._model = self._version = ""

    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one.

        Raises:
            ModelError: it is an error.
        """
        reply = _decode(data)
        if reply.error is not None:
            raise self._failures.reported(reply.error)
        self._usage = reply.usage or self._usage
        self._model = reply.model or self._model
        self._version = reply.system_fingerprint or self._version
        if not reply.choices:
            return None
        choice = reply.choices[0]
        prompt = reply.prompt_token_ids if choice.prompt_token_ids is None else choice.prompt_token_ids
        self._prompt = self._prompt if prompt is None else prompt
        self._finish = choice.finish_reason or self._finish
        if choice.logprobs is not None and choice.logprobs.token_logprobs is not None:
            self._logprobs = [*(self._logprobs or []), *choice.logprobs.token_logprobs]
        ids = choice.token_ids or []
        self._ids += ids
        return Piece(ids=tuple(ids)) if ids else None

    def sampled(self, draw: Draw, timing: Timing) -> Sampled:
        """The whole reply.

        Raises:
            DisagreementError: what was said does not agree.
            ModelError: the server gave up on it.
        """
        if self._finish not in ("stop", "length"):
            what = f"the reply ended with {self._finish!r}" if self._finish else "the reply has no end"
            raise self._failures.make("server", what, "look at the server's log", transient=True)
        check_prompt(self._prompt, draw.prompt_ids)
        check_counts(self._usage.prompt_tokens, self._usage.completion_tokens, len(draw.prompt_ids), len(self._ids))
        logprobs = check_drawn(self._ids, self._logprobs, draw.sampling.logprobs)
        details = self._usage.prompt_tokens_details
        return Sampled(
            ids=tuple(self._ids),
            logprobs=logprobs,
            finish_reason=self._finish,
            policy_version=self._version if self._fingerprint_is_version else self._model,
            cached_tokens=(details.cached_tokens or 0) if details is not None else 0,
            seconds=timing.seconds,
            waited=timing.waited,
            attempts=timing.attempts,
            model=self._model,
        )
