"""How varied a set of tasks is, and how near to another: the figures of CoEvolve's appendix A.5, of vectors.

SR@k    of each task the mean cosine to its k nearest among the others, over all of them: lower is more varied
ED_rel  energy distance between two sets, over the mean distance within the target: lower is nearer to it
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from silva.errors import UsageError
from silva.models.embedding.embedder import Vectors

K = 5
"""Neighbours that SR@k looks at, where nothing else is said."""


def self_redundancy(vectors: Vectors, k: int = K) -> float | None:
    """SR@k of vectors of length 1, in [-1, 1]; None with fewer than two. With fewer than k + 1 all others count."""
    count = len(vectors)
    if k < 1:
        raise UsageError(f"SR@k: k is at least 1, not {k}")
    if count < 2:
        return None
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -np.inf)
    nearest = np.sort(alike, axis=1)[:, ::-1][:, : min(k, count - 1)]
    return float(nearest.mean())


def energy_distance(target: Vectors, made: Vectors) -> float | None:
    """ED_rel of `made` to `target`: 0 where both are of one distribution; a little below where chance has it so (the
    means within count each vector with itself, as the paper has them). None where a set is empty, or all of the target
    is one point."""
    if len(target) < 2 or not len(made):
        return None
    within = _distances(target, target)
    spread = float(within.sum()) / (len(target) * (len(target) - 1))
    if spread <= 0:
        return None
    energy = 2 * _distances(target, made).mean() - within.mean() - _distances(made, made).mean()
    return float(energy) / spread


def likeness(made: Vectors, target: Vectors) -> list[float]:
    """Of each vector the largest cosine to any of the target's; empty where there is none."""
    return [float(each) for each in (made @ target.T).max(axis=1)] if len(made) and len(target) else []


def diversity(made: Vectors, target: Vectors, k: int = K) -> dict[str, Any]:
    """All of it, as JSON: `sr`, `ed`, `similarity` (mean and largest) and how many vectors there were."""
    alike = likeness(made, target)
    return {
        "sr": self_redundancy(made, k),
        "ed": energy_distance(target, made),
        "similarity": sum(alike) / len(alike) if alike else None,
        "most_similar": max(alike, default=None),
        "tasks": len(made),
        "target": len(target),
    }


def _distances(one: Vectors, other: Vectors) -> NDArray[np.float64]:
    left, right = one.astype(np.float64), other.astype(np.float64)
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    return np.sqrt(np.maximum(squares, 0.0))
