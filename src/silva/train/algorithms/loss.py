"""A loss: one number to differentiate, and what to draw beside it. Losses of a step's batches add up to the step's.

How a loss per token becomes one number is a choice that changes what is learned:

    token      every token of the step counts the same; long sequences count more
               (DAPO: An Open-Source LLM Reinforcement Learning System at Scale, 2025, arXiv 2503.14476)
    sequence   the mean over sequences of each one's mean; a token of a long sequence counts less
               (DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models, 2024,
               arXiv 2402.03300)
    constant   the sum over sequences, divided by their number and a constant, usually the most tokens one may have;
               neither length nor its variation enters
               (Understanding R1-Zero-Like Training: A Critical Perspective, "Dr. GRPO", 2025, arXiv 2503.20783)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from silva.train.algorithms.errors import BatchError

if TYPE_CHECKING:
    from torch import Tensor

    from silva.train.algorithms.batch import Batch

Normalise = Literal["token", "sequence", "constant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """`value` is a scalar tensor with gradient. Each of `metrics` is a share of the step's mean: those of its batches
    are added, never averaged."""

    value: Tensor
    metrics: dict[str, float] = field(default_factory=dict[str, float])

    def __add__(self, other: Loss) -> Loss:
        metrics = dict(self.metrics)
        for name, value in other.metrics.items():
            metrics[name] = metrics.get(name, 0.0) + value
        return Loss(value=self.value + other.value, metrics=metrics)


def normalised(per_token: Tensor, batch: Batch, how: Normalise, constant: int | None = None) -> Tensor:
    """Weigh a loss per token, shape (T,), and bring it to a scalar: this batch's part of the step's loss.

    Raises:
        BatchError: the step has no position with loss, or `constant` is asked for and not given.
    """
    totals = batch.step
    weighted = per_token * batch.effective_weights
    if how == "token":
        return weighted.sum() / totals.tokens
    if how == "sequence":
        lengths = batch.per_sequence(batch.effective_weights)
        return (batch.per_sequence(weighted) / lengths.masked_fill(lengths == 0, 1.0)).sum() / totals.sequences
    if constant is None:
        raise BatchError("normalise: constant needs `constant`, the number of tokens to divide by")
    return weighted.sum() / (totals.sequences * constant)


def share(values: Tensor, batch: Batch) -> float:
    """This batch's part of the step's weighted mean of `values`, shape (T,)."""
    return float((values.detach() * batch.effective_weights).sum() / batch.step.tokens)
