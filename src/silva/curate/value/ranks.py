"""Ranks: how scores of different kinds are laid beside each other."""

from __future__ import annotations

import numpy as np

from silva.curate.value.scorer import Floats


def percentiles(worth: Floats) -> Floats:
    """The share of the others that are worth less, ties counted half, in [0, 1]; NaN stays NaN. A single one has
    0.5."""
    made = np.full(len(worth), np.nan)
    known = np.flatnonzero(~np.isnan(worth))
    values = worth[known]
    if len(values) == 1:
        made[known] = 0.5
    elif len(values):
        ordered = np.sort(values)
        below, within = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
        made[known] = (below + within - 1) / 2 / (len(values) - 1)
    return made


def places(worth: Floats) -> np.ndarray:
    """The place of each, 1 for what is worth most; ties by order; 0 for NaN."""
    made = np.zeros(len(worth), np.int64)
    known = np.flatnonzero(~np.isnan(worth))
    made[known[np.argsort(-worth[known], kind="stable")]] = np.arange(1, len(known) + 1)
    return made
