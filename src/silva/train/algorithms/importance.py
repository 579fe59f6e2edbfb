"""The importance ratio: how much likelier a drawn id is now than when it was drawn, and what a loss makes of it.

    token      one ratio a token
               (Proximal Policy Optimization Algorithms, 2017, arXiv 1707.06347)
    sequence   one ratio a sample, the geometric mean of its tokens'
               (Group Sequence Policy Optimization, 2025, arXiv 2507.18071)

An engine that samples and one that trains give the same id slightly different probabilities. `truncated` weighs a
token by the trainer's over the sampler's, at most `cap` (Your Efficient RL Framework Secretly Brings You Off-Policy RL
Training, Yao and others, 2025; the cap after Ionides, Truncated Importance Sampling, 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from silva.train.algorithms.batch import Batch

Level = Literal["token", "sequence"]


def importance_ratio(logprobs: Tensor, old: Tensor, batch: Batch, level: Level) -> Tensor:
    """The ratio at each position, shape (T,); at level `sequence` the same all over a sample."""
    difference = logprobs - old
    if level == "token":
        return difference.exp()
    mask = batch.mask.to(difference.dtype)
    lengths = batch.per_sequence(mask)
    mean = batch.per_sequence(difference * mask) / lengths.masked_fill(lengths == 0, 1.0)
    return mean.exp()[batch.sequence]


def truncated(trainer: Tensor, sampler: Tensor, cap: float) -> Tensor:
    """Probability of each drawn id under the trainer over that under the sampler, at most `cap`; without gradient."""
    return (trainer - sampler).detach().exp().clamp(max=cap)


def surrogate(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """The clipped objective of PPO as a loss, shape (T,): no reward for moving the ratio out of [1 - low, 1 + high]."""
    return -(ratio * advantages).minimum(ratio.clamp(1.0 - low, 1.0 + high) * advantages)
