"""The teacher of a distillation: frozen weights that say, of the very ids the policy drew, how likely each would be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from silva.errors import UsageError
from silva.train.algorithms.errors import TeacherError
from silva.train.algorithms.teacher import TeacherLogprobs
from silva.train.algorithms.totals import loss_positions
from silva.train.config import TeacherConfig
from silva.train.engines import adapters
from silva.train.engines.microbatches import MicroBatch
from silva.train.engines.token_logprobs import likeliest, token_logprobs
from silva.train.engines.weights import load_model, policy_folder, tokenizer_digest
from silva.train.sample import Sample


class Teacher:
    """Frozen weights, perhaps with an adapter.

    Args:
        config: which.
        dtype: what is computed in.
        temperature: divides its logits as it does the policy's.
        tokenizer: digest of the policy's tokenizer.
        device: where it computes (None: the processor).

    Raises:
        UsageError: weights or adapter cannot be used.
        TeacherError: it has another tokenizer.
    """

    def __init__(
        self,
        config: TeacherConfig,
        dtype: torch.dtype,
        temperature: float,
        tokenizer: str,
        device: torch.device | None = None,
    ) -> None:
        folder = policy_folder(config.weights)
        self._digest = tokenizer_digest(folder)
        if not self._digest or tokenizer != self._digest:
            told = f"another tokenizer ({self._digest[:12]})" if self._digest else "no tokenizer.json to compare"
            raise TeacherError(
                f"teacher {folder.name}: its ids must stand for the tokens that the policy's stand for "
                f"({tokenizer[:12] or 'it has no tokenizer.json'}); it has {told}: use one of the policy's family"
            )
        model = load_model(folder, dtype)
        if config.adapter is not None:
            model = adapters.merge_into(model, config.adapter, folder)
        self._model = model.eval().requires_grad_(False).to(device or torch.device("cpu"))
        self._name = folder.name if config.adapter is None else config.adapter.name
        self._top = config.top
        self._temperature = temperature

    def check(self, samples: Sequence[Sample]) -> None:
        """See that it can read samples.

        Raises:
            UsageError: they are longer than its context or hold ids it does not have.
        """
        limit, vocabulary = int(self._model.config.max_position_embeddings), int(self._model.config.vocab_size)
        for sample in samples:
            if len(sample) > limit or (len(sample) and int(sample.ids.max()) >= vocabulary):
                raise UsageError(
                    f"{sample.name}: {len(sample)} ids up to {int(sample.ids.max())}; the teacher {self._name} reads "
                    f"{limit} of {vocabulary}"
                )

    def judge(self, batch: MicroBatch, alternatives: bool) -> tuple[list[TeacherLogprobs], Tensor | None]:
        """What it says of each sample, all of which it can read (`check`); with `alternatives` also its likeliest ids
        where there is loss, [L, K]."""
        vocabulary = int(self._model.config.vocab_size)
        with torch.no_grad():
            output = self._model.model(
                input_ids=batch.ids, position_ids=batch.positions, use_cache=False, segments=batch.segments
            )
            hidden, head = output.last_hidden_state[0, batch.read_at], self._model.lm_head.weight
            drawn = token_logprobs(hidden, head, batch.targets[:, None], self._temperature)[:, 0]
            top = likeliest(hidden, head, min(self._top, vocabulary), self._temperature) if alternatives else None
        return self._laid_out(batch, drawn, top), None if top is None else top[0]

    def _laid_out(self, batch: MicroBatch, drawn: Tensor, top: tuple[Tensor, Tensor] | None) -> list[TeacherLogprobs]:
        found: list[TeacherLogprobs] = []
        start = 0
        for sample in batch.samples:
            at = loss_positions(sample)
            mine = slice(start, start + len(at))
            start += len(at)
            logprobs = np.zeros(len(sample), np.float32)
            logprobs[at] = drawn[mine].cpu().numpy()
            ids = values = None
            if top is not None:
                ids = np.zeros((len(sample), top[0].shape[1]), np.int32)
                values = np.zeros(ids.shape, np.float32)
                ids[at], values[at] = (part[mine].cpu().numpy() for part in top)
            found.append(
                TeacherLogprobs(
                    ids=sample.ids,
                    logprobs=logprobs,
                    top_ids=ids,
                    top_logprobs=values,
                    tokenizer=self._digest,
                    model=self._name,
                )
            )
        return found
