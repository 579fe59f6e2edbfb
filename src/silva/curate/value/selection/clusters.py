"""Clusters by what rows are about: k-means on vectors of length 1, the same for the same seed on any number of cores.

vectors ─▶ at most `FITTED` of them, drawn ─▶ k-means++ ─▶ Lloyd's steps ─▶ centres ─▶ each vector its nearest one
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Vectors = np.ndarray[Any, np.dtype[np.float32]]
Places = np.ndarray[Any, np.dtype[np.int64]]

FITTED = 20_000
"""Most vectors that centres are fitted to; the others are given to their nearest centre."""
STEPS = 25
TRIES = 8
"""Beginnings, of which the one with the tightest clusters counts; one alone where each takes long."""
_CHEAP = 200_000_000
_PIECE = 16_384


def clusters(vectors: Vectors, count: int, seed: int = 0) -> Places:
    """The cluster of each vector, numbered from 0 by size, largest first. There may be fewer than `count`."""
    count = max(1, min(count, len(vectors)))
    draw = np.random.default_rng(seed)
    fitted = vectors
    if len(vectors) > max(FITTED, 20 * count):
        fitted = vectors[np.sort(draw.choice(len(vectors), max(FITTED, 20 * count), replace=False))]
    tries = TRIES if fitted.size * count <= _CHEAP else 1
    _, centres = min((_settled(fitted, _spread(fitted, count, draw)) for _ in range(tries)), key=lambda made: made[0])
    found = nearest(vectors, centres)
    sizes = np.bincount(found, minlength=count)
    order = np.argsort(-sizes, kind="stable")
    number = np.empty(count, np.int64)
    number[order] = np.arange(count)
    return number[found]


def nearest(vectors: Vectors, centres: Vectors) -> Places:
    """The nearest centre of each vector."""
    lengths = (centres * centres).sum(axis=1) / 2  # of equal use as the distance, for vectors of any length
    parts = [np.argmax(part @ centres.T - lengths, axis=1) for part in pieces(vectors)]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def pieces(vectors: Vectors) -> Iterator[Vectors]:
    """Some vectors at a time: what is made of all of them at once may not fit the memory."""
    for begin in range(0, len(vectors), _PIECE):
        yield vectors[begin : begin + _PIECE]


def _settled(vectors: Vectors, centres: Vectors) -> tuple[float, Vectors]:
    """Lloyd's steps: how far vectors lie from their centres in the end, squared and summed, and the centres."""
    held: Places | None = None
    for _ in range(STEPS):
        given = nearest(vectors, centres)
        if held is not None and np.array_equal(given, held):
            break
        held, centres = given, _means(vectors, given, centres)
    assert held is not None
    return float(((vectors - centres[held]) ** 2).sum(dtype=np.float64)), centres


def _spread(vectors: Vectors, count: int, draw: np.random.Generator) -> Vectors:
    """k-means++: each next centre drawn by its squared distance to those there are."""
    chosen = [int(draw.integers(len(vectors)))]
    squares = (vectors * vectors).sum(axis=1)
    far = _distances(vectors, squares, vectors[chosen[0]])
    while len(chosen) < count:
        total = float(far.sum(dtype=np.float64))
        if total <= 1e-12:  # all others lie on centres
            break
        at = int(np.searchsorted(np.cumsum(far, dtype=np.float64), draw.random() * total))
        chosen.append(min(at, len(vectors) - 1))
        far = np.minimum(far, _distances(vectors, squares, vectors[chosen[-1]]))
    return vectors[chosen].copy()


def _distances(vectors: Vectors, squares: Vectors, centre: Vectors) -> Vectors:
    return np.maximum(squares - 2 * (vectors @ centre) + float(centre @ centre), 0.0)


def _means(vectors: Vectors, given: Places, centres: Vectors) -> Vectors:
    """The mean of each cluster; an empty one keeps its centre."""
    sizes = np.bincount(given, minlength=len(centres))
    order = np.argsort(given, kind="stable")
    kept = np.flatnonzero(sizes)
    sums = np.add.reduceat(vectors[order], np.cumsum(sizes[kept]) - sizes[kept], axis=0)
    made = centres.copy()
    made[kept] = sums / sizes[kept, None]
    return made
