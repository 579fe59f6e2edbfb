"""SGLang's `/generate` with token ids both ways; images travel beside the ids.

    {"input_ids": [ids], "return_logprob": true} ─▶ output_ids, meta_info (why it ended, counts, logprobs)

Its streams give either all ids so far or only the new ones, by a flag of the server; the count of sampled tokens in
each piece tells which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from silva.models.exact.backend import DisagreementError, Draw, Piece
from silva.models.exact.gathering import Gathering, GatheringBackend
from silva.models.failure import Failures
from silva.models.wire import Count, Id, data_url
from silva.tree import Json

PATH = "/generate"

ADAPTER_FIELD = "lora_path"
"""Names the loaded adapter that answers, by the name it was loaded under; without it the plain weights do."""

UNNAMED = "default"
"""The version that SGLang tells until somebody gives its weights one (`--weight-version`, or with an update)."""

Item = TypeVar("Item")

_NAMES = {name: name for name in ("temperature", "top_p", "top_k", "stop")} | {"seed": "sampling_seed"}


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
        parameters |= sampling.named(_NAMES)
        if draw.stop_ids:
            parameters["stop_token_ids"] = draw.stop_ids
        body: Json = {
            "sampling_params": parameters | sampling.extra,
            "return_logprob": sampling.logprobs,
            "return_prompt_token_ids": True,
            "stream": stream,
        }
        if draw.images:
            body["image_data"] = [data_url(image.data, image.media_type) for image in draw.images]
        return msgspec.json.encode(body | self.endpoint.extra | {"input_ids": draw.prompt_ids})


class _Gathered(Gathering):
    def __init__(self, failures: Failures, model: str) -> None:
        super().__init__(failures)
        self._model = model
        self._told: list[tuple[float | None, int, str | None]] = []

    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one; its ids are all so far or the next ones. See `Gathering`."""
        reply = _decode(data)
        if reply.error is not None:
            raise self._failures.reported(reply.error)
        meta = reply.meta_info
        self._finish = "" if meta.finish_reason is None else meta.finish_reason.type
        if meta.finish_reason is not None and self._finish == "abort":
            status = meta.finish_reason.status_code or 503
            raise self._failures.of_code(status, f"the reply was aborted: {meta.finish_reason.message}")
        self._prompt = self._prompt if reply.prompt_token_ids is None else reply.prompt_token_ids
        self._counted, self._cached = (meta.prompt_tokens, meta.completion_tokens), meta.cached_tokens or 0
        self._version = "" if meta.weight_version in (None, UNNAMED) else meta.weight_version
        known = len(self._ids)
        self._ids = _joined(self._ids, reply.output_ids or [], meta.completion_tokens, "ids")
        self._told = _joined(self._told, meta.output_token_logprobs or [], len(self._ids), "logprobs")
        return Piece(ids=tuple(self._ids[known:])) if len(self._ids) > known else None

    def _logprobs(self) -> list[float | None] | None:
        if [number for _, number, _ in self._told] != self._ids:
            raise DisagreementError("its logprobs are of other ids than it gave")
        return [value for value, _, _ in self._told]


def _joined(known: list[Item], given: Sequence[Item], count: int | None, what: str) -> list[Item]:
    """All so far, from what is known and what a piece gives: everything again, or what is new."""
    if not given:
        return known
    if count == len(known) + len(given):
        return [*known, *given]
    if (count is None or count == len(given)) and list(given[: len(known)]) == known:
        return list(given)
    raise DisagreementError(f"a piece gives {len(given)} {what} after {len(known)}, but counts {count} tokens")
