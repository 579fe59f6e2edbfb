"""Coverage: each next row is good and far from all that were chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from silva.curate.value.ranks import percentiles
from silva.curate.value.scorer import Floats
from silva.curate.value.selection.clusters import Vectors
from silva.errors import UsageError

MOST = 4_000_000_000
"""Most steps (rows times chosen ones) that are gone: about an hour."""


def cover(vectors: Vectors, worth: Floats, count: int) -> Sequence[int]:
    """Places in the order in which they are chosen: first the one that is worth most, then each time the one with
    the most of (1 - cosine to the nearest chosen) x (its rank, in [0, 1]); ties by order.

    Raises:
        UsageError: it would take too many steps.
    """
    if len(vectors) * count > MOST:
        raise UsageError(f"method=coverage: {count} of {len(vectors)} rows take too long; take method=cluster")
    ranks = percentiles(worth)
    near = np.full(len(vectors), -1.0, np.float32)
    chosen: list[int] = []
    taken = np.zeros(len(vectors), bool)
    while len(chosen) < count:
        gain = (1.0 - near) * (0.5 + ranks)
        gain[taken] = -np.inf
        at = int(np.argmax(gain))
        chosen.append(at)
        taken[at] = True
        near = np.maximum(near, vectors @ vectors[at])
    return chosen
