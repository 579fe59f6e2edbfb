"""SGLang's `/generate` with token ids both ways; images travel beside the ids.

    {"input_ids": [ids], "return_logprob": true} ─▶ output_ids, meta_info (why it ended, counts, logprobs)

Its streams give either all ids so far or only the new ones, by a flag of the server; the count of sampled tokens in
each piece tells which.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from silva.models.calling import Timing
from silva.models.exact.backend import (
    DisagreementError,
    Draw,
    Piece,
    Sampled,
    check_counts,
    check_drawn,
    check_prompt,
)
from silva.models.exact.gathering import Gathering, GatheringBackend
from silva.models.failure import Failures
from silva.models.wire import Count, Id
from silva.tree import Json

PATH = "/generate"

ADAPTER_FIELD = "lora_path"
"""Names the loaded adapter that answers, by the name it was loaded under; without it the plain weights do."""

UNNAMED = "default"
"""The version that SGLang tells until somebody gives its weights one (`--weight-version`, or with an update)."""

Item = TypeVar("Item")


class _Finish(msgspec.Struct):
    type: str = ""
    message: str = ""
    status_code: int | None = None


class _Meta(msgspec.Struct):
    finish_reason: _Finish | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    weight_version: str | None = None
    output_token_logprobs: list[tuple[float | None, int, str | None]] | None = None


class _Reply(msgspec.Struct):
    output_ids: list[Id] | None = None
    prompt_token_ids: list[Id] | None = None
    meta_info: _Meta = msgspec.field(default_factory=_Meta)
    error: Any = None


_decode = msgspec.json.Decoder(_Reply).decode


class SglangBackend(GatheringBackend):
    """A `NativeBackend` behind SGLang. The arguments are as in `Caller`."""

    path = PATH
    most_streamed = math.inf  # where each piece repeats what came before, it is the pieces that are bounded

    def _gathering(self) -> Gathering:
        return _Gathered(self.failures, self.name)

    def _body(self, draw: Draw, stream: bool) -> bytes:
        sampling = draw.sampling
        parameters: Json = {"max_new_tokens": sampling.max_tokens}  # null: as many as the context has room for
        names = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "seed": "sampling_seed"}
        for key, name in names.items():
            if (value := getattr(sampling, key)) is not None:
                parameters[name] = value
        if sampling.stop:
            parameters["stop"] = sampling.stop
        if draw.stop_ids:
            parameters["stop_token_ids"] = draw.stop_ids
        body: Json = {
            "sampling_params": parameters | sampling.extra,
            "return_logprob": sampling.logprobs,
            "return_prompt_token_ids": True,
            "stream": stream,
        }
        if draw.images:
            body["image_data"] = [
                f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}" for image in draw.images
            ]
        return msgspec.json.encode(body | self.endpoint.extra | {"input_ids": draw.prompt_ids})


class _Gathered:
    """What a reply has said so far, whole or in pieces."""

    def __init__(self, failures: Failures, model: str) -> None:
        self._failures = failures
        self._model = model
        self._ids: list[int] = []
        self._logprobs: list[tuple[float | None, int, str | None]] = []
        self._prompt: list[int] | None = None
        self._meta = _Meta()

    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one.

        Raises:
            ModelError: it is an error.
            DisagreementError: its ids are neither all so far nor the next ones.
        """
        reply = _decode(data)
        if reply.error is not None:
            raise self._failures.reported(reply.error)
        meta = self._meta = reply.meta_info
        if meta.finish_reason is not None and meta.finish_reason.type == "abort":
            status = meta.finish_reason.status_code or 503
            raise self._failures.of_code(status, f"the reply was aborted: {meta.finish_reason.message}")
        self._prompt = self._prompt if reply.prompt_token_ids is None else reply.prompt_token_ids
        known = len(self._ids)
        self._ids = _joined(self._ids, reply.output_ids or [], meta.completion_tokens, "ids")
        self._logprobs = _joined(self._logprobs, meta.output_token_logprobs or [], len(self._ids), "logprobs")
        return Piece(ids=tuple(self._ids[known:])) if len(self._ids) > known else None

    def sampled(self, draw: Draw, timing: Timing) -> Sampled:
        """The whole reply.

        Raises:
            DisagreementError: what was said does not agree.
            ModelError: it has no end.
        """
        meta, wanted = self._meta, draw.sampling.logprobs
        if meta.finish_reason is None or meta.finish_reason.type not in ("stop", "length"):
            raise self._failures.make("server", "the reply has no end", "look at the server's log", transient=True)
        check_prompt(self._prompt, draw.prompt_ids, len(draw.images))
        # an image's placeholder is counted as all the tokens it becomes
        counted = None if draw.images else meta.prompt_tokens
        check_counts(counted, meta.completion_tokens, len(draw.prompt_ids), len(self._ids))
        if wanted and [number for _, number, _ in self._logprobs] != self._ids:
            raise DisagreementError("its logprobs are of other ids than it gave")
        logprobs = check_drawn(self._ids, [value for value, _, _ in self._logprobs], wanted)
        return Sampled(
            ids=tuple(self._ids),
            logprobs=logprobs,
            finish_reason=meta.finish_reason.type,
            policy_version="" if meta.weight_version in (None, UNNAMED) else meta.weight_version,
            cached_tokens=meta.cached_tokens or 0,
            seconds=timing.seconds,
            waited=timing.waited,
            attempts=timing.attempts,
            model=self._model,
        )


def _joined(known: list[Item], given: Sequence[Item], count: int | None, what: str) -> list[Item]:
    """All so far, from what is known and what a piece gives: everything again, or what is new."""
    if not given:
        return known
    if count == len(known) + len(given):
        return [*known, *given]
    if (count is None or count == len(given)) and list(given[: len(known)]) == known:
        return list(given)
    raise DisagreementError(f"a piece gives {len(given)} {what} after {len(known)}, but counts {count} tokens")
