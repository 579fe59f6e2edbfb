"""What a whole optimiser step holds, counted before it is cut into batches.

A loss is a sum over positions, sequences or pairs, divided by how many the step has. Each batch of the step divides by
the same totals, so the losses and gradients of the batches add up to those of the step cut nowhere; a mean of means
would weigh a batch of few tokens like one of many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from silva.train.algorithms.errors import BatchError
from silva.train.sample import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """`tokens` is the sum of the weights of positions with loss, `sequences` how many samples have any, `pairs` how
    many pairs there are. With several processes: the sum over all of them."""

    tokens: float
    sequences: int
    pairs: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            tokens=self.tokens + other.tokens,
            sequences=self.sequences + other.sequences,
            pairs=self.pairs + other.pairs,
        )

    @staticmethod
    def of(samples: Iterable[Sample], pairs: int = 0) -> Totals:
        """Count a step's samples.

        Raises:
            BatchError: position 0 carries loss, a weight is negative or not finite, or nothing carries loss.
        """
        tokens, sequences = 0.0, 0
        for sample in samples:
            weight = float(sample.weights[loss_positions(sample)].sum(dtype=np.float64))
            tokens += weight
            sequences += weight > 0
        if not sequences:
            raise BatchError("step: no position carries loss; every turn is masked or has weight 0")
        return Totals(tokens=tokens, sequences=sequences, pairs=pairs)


def loss_positions(sample: Sample) -> np.ndarray:
    """Positions of `sample` that carry loss, ascending, shape (t,).

    Raises:
        BatchError: position 0 is among them (nothing stands before it), or a weight there is negative or not finite.
    """
    positions = np.flatnonzero(sample.mask)
    if positions.size and positions[0] == 0:
        raise BatchError(f"{sample.name}: position 0 carries loss but nothing stands before it: mask it")
    weights = sample.weights[positions]
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        at = int(positions[wrong.argmax()])
        raise BatchError(f"{sample.name}: the weight at position {at} is {sample.weights[at]}: use a number from 0")
    return positions
