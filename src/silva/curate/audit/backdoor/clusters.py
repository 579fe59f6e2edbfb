"""Groups of rows that would change a model alike, more alike than honest rows ever are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from silva.errors import MissingError

LEAST = 4
"""Rows a group must have: fewer may be chance."""

TIGHT = 0.75
"""Mean cosine from which a group is flagged. Chosen on five runs before those that `benchmarks/audit_backdoor.py`
measures; groups of honest rows lie under it however they fall."""

SHORTEST = 5
"""Words that a reply must have: a hundred honest rows say yes, and would teach the same."""

MOST_SHARE = 0.5
"""A group of more than this share of the rows is how the data is, not what was planted in it."""


class Cluster(NamedTuple):
    """Rows (their numbers, ascending) and the mean cosine between two of them."""

    rows: tuple[int, ...]
    cosine: float


def clusters(alike: NDArray[np.float32], least: int = LEAST) -> list[Cluster]:
    """All groups that HDBSCAN finds in a matrix of cosines [n, n], tightest first; the finest (its leaves), for what is
    planted in a few rows else drowns in the group around it.

    Raises:
        MissingError: scikit-learn is not installed.
    """
    try:
        from sklearn.cluster import HDBSCAN
    except ModuleNotFoundError as fault:
        raise MissingError(
            "clustering needs scikit-learn, which is not installed: pip install 'silva[audit]'"
        ) from fault
    if len(alike) < 2 * least:
        return []
    apart = np.clip(1.0 - alike.astype(np.float64), 0.0, 2.0)
    apart = (apart + apart.T) / 2  # products of single precision differ by their order
    np.fill_diagonal(apart, 0.0)
    kept: Any = {"copy": True}  # the stubs take it for a word
    model: Any = HDBSCAN(min_cluster_size=least, metric="precomputed", cluster_selection_method="leaf", **kept)
    labels = np.asarray(model.fit_predict(apart))
    found: list[Cluster] = []
    for label in sorted(set(labels.tolist()) - {-1}):
        rows = np.flatnonzero(labels == label)
        inside = alike[np.ix_(rows, rows)]
        mean = (float(inside.sum()) - len(rows)) / (len(rows) * (len(rows) - 1))
        found.append(Cluster(tuple(rows.tolist()), mean))
    return sorted(found, key=lambda each: -each.cosine)


def planted(found: list[Cluster], rows: int, tight: float = TIGHT) -> list[Cluster]:
    """Those of the groups that are tight, and not most of the data."""
    return [each for each in found if each.cosine >= tight and len(each.rows) <= MOST_SHARE * rows]
