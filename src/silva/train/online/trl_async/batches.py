"""A step's samples as TRL's trainer takes them: one batch a step, cut into micro-batches by tokens.

    Rollouts.next_step ─▶ n samples through TRL's queue ─▶ rows that share prefixes ─▶ TRL's collator ─▶ micro_batches

A micro-batch says its `share` of the step's tokens with loss: its mean loss times its share, added up, is the step's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset
from trl.experimental.async_grpo.packing import TreeRow

MICRO, SHARE = "micro_batches", "share"


class StepBatches(IterableDataset[dict[str, Any]]):
    """See the module.

    Args:
        samples: TRL's `RolloutQueueDataset`, which drains the queue.
        next_step: fills the queue and says how many samples the step has; 0 ends training.
        collate: TRL's collator.
        micro_tokens: bounds what is computed at once; changes no result but rounding.
    """

    def __init__(self, samples: Any, next_step: Callable[[], int], collate: Any, micro_tokens: int) -> None:
        self._samples, self._next_step, self._collate = samples, next_step, collate
        self._micro_tokens = micro_tokens

    def __iter__(self) -> Iterator[dict[str, Any]]:
        samples = iter(self._samples)
        while count := self._next_step():
            yield self._step([next(samples) for _ in range(count)])

    def _step(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        rows = [TreeRow()]
        for sample in samples:
            if rows[-1].samples and not rows[-1].fits(sample, self._micro_tokens):
                rows.append(TreeRow())
            rows[-1].add(sample)
        total = max(1, sum(row.trained for row in rows))
        batches = []
        for row in rows:
            batch = self._collate([[row]])
            batch[SHARE] = torch.tensor([row.trained / total])
            batches.append(batch)
        return {MICRO: batches}
