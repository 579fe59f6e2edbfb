"""Advantages of a group: how much better each attempt at a task did than the others.

    mean           reward - mean of the group
                   (Understanding R1-Zero-Like Training: A Critical Perspective, "Dr. GRPO", 2025, arXiv 2503.20783)
    mean_std       that, divided by the group's standard deviation (n - 1) + 1e-4
                   (DeepSeekMath, 2024, arXiv 2402.03300; the divisor as in TRL)
    leave_one_out  reward - mean of the others
                   (Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs,
                   2024, arXiv 2402.14740)

A group whose rewards are all alike teaches nothing and is dropped (dynamic sampling of DAPO, 2025, arXiv 2503.14476). A
trajectory counts once, in however many segments it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from silva.train.algorithms.errors import GroupError
from silva.train.sample import Sample

Baseline = Literal["mean", "mean_std", "leave_one_out"]
_ALIKE = 1e-8
"""Rewards this near to each other, for their size, are one reward."""
_SOFTEN = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """A group with nothing to learn from. `reason`: `zero_variance` (all rewards alike) or `no_loss` (every position of
    every member is masked)."""

    reason: Literal["zero_variance", "no_loss"]
    run_id: str
    task_id: str


def score(
    group: Sequence[Sample],
    baseline: Baseline = "mean_std",
    *,
    keep_zero_variance: bool = False,
    mixed_versions: bool = False,
) -> list[Sample] | Dropped:
    """The group's samples, each with its trajectory's advantage at every position with loss; in the same order.

    Raises:
        GroupError: no or one trajectory; several tasks, runs or (unless allowed) policy versions; a reward that is no
            number or differs between segments; a segment that comes twice; a position with loss and no logprob.
    """
    rewards = _rewards(group)
    first = group[0]
    _one_policy(group, mixed_versions)
    for sample in group:
        _has_logprobs(sample)
    if not any(sample.mask.any() for sample in group):
        return Dropped(reason="no_loss", run_id=first.run_id, task_id=first.task_id)
    values = np.array(list(rewards.values()))
    if not keep_zero_variance and alike(values):
        return Dropped(reason="zero_variance", run_id=first.run_id, task_id=first.task_id)
    by_trajectory = dict(zip(rewards, advantages(values, baseline), strict=True))
    return [
        replace(sample, advantages=np.where(sample.mask, by_trajectory[_key(sample)], 0.0).astype(np.float32))
        for sample in group
    ]


def advantages(rewards: npt.NDArray[np.float64], baseline: Baseline) -> npt.NDArray[np.float64]:
    """Advantage of each of a group's rewards, shape (g,), g > 1. They are 0 where all rewards are alike."""
    if alike(rewards):
        return np.zeros_like(rewards)
    centred = rewards - rewards.mean()
    if baseline == "leave_one_out":
        return centred * len(rewards) / (len(rewards) - 1)
    return centred / (rewards.std(ddof=1) + _SOFTEN) if baseline == "mean_std" else centred


def alike(rewards: npt.NDArray[np.float64]) -> bool:
    """Whether rewards differ by no more than rounding."""
    return bool(np.ptp(rewards) <= _ALIKE * max(1.0, float(np.abs(rewards).max())))


def _key(sample: Sample) -> tuple[str, int]:
    return sample.trajectory_id, sample.index


def _rewards(group: Sequence[Sample]) -> dict[tuple[str, int], float]:
    if not group:
        raise GroupError("group: it has no samples")
    first = group[0]
    where = f"group of task {first.task_id or '?'} in run {first.run_id or '?'}"
    rewards: dict[tuple[str, int], float] = {}
    segments: set[tuple[str, int, int]] = set()
    for sample in group:
        if (sample.run_id, sample.task_id) != (first.run_id, first.task_id):
            raise GroupError(f"{where}: a sample of task {sample.task_id} in run {sample.run_id} is among them")
        if not np.isfinite(sample.reward):
            raise GroupError(f"{where}: {sample.name} has reward {sample.reward}: score it or leave the group out")
        known = rewards.setdefault(_key(sample), sample.reward)
        if known != sample.reward:
            raise GroupError(f"{where}: {sample.name} has reward {sample.reward}, an earlier segment {known}")
        if (*_key(sample), sample.segment) in segments:
            raise GroupError(f"{where}: {sample.name} comes twice")
        segments.add((*_key(sample), sample.segment))
    if len(rewards) < 2:
        raise GroupError(f"{where}: one trajectory has none to be compared with: sample at least 2 a task")
    return rewards


def _one_policy(group: Sequence[Sample], mixed_versions: bool) -> None:
    versions = sorted({version for sample in group for version in sample.versions})
    if len(versions) > 1 and not mixed_versions:
        raise GroupError(
            f"group of task {group[0].task_id or '?'}: policy versions {', '.join(versions)} drew it: "
            "set mixed_versions to train on it all the same"
        )


def _has_logprobs(sample: Sample) -> None:
    missing = sample.mask & ~np.isfinite(sample.logprobs)
    if missing.any():
        raise GroupError(
            f"{sample.name}: no logprob of the id at position {int(missing.argmax())}: "
            "sample with logprobs, or train on it with sft"
        )
