"""Vectors of samples: by an embedder, in pieces, and narrower where there are very many."""

from __future__ import annotations

import numpy as np

from silva.curate.value.sample import Samples
from silva.curate.value.selection.clusters import Vectors
from silva.models.embedding import Embedder

MOST = 200_000_000
"""Numbers that are held (0.8 GB); beyond that vectors are projected to `NARROW` dimensions as they are made."""
NARROW = 64
_PIECE = 4_096


def embed(samples: Samples, embedder: Embedder, seed: int = 0, narrow: bool | None = None) -> Vectors:
    """A vector of length 1 for what is asked and answered in each sample, [samples, size].

    Many (or all where `narrow` says so) are projected at random (Johnson and Lindenstrauss, 1984): cosines stay,
    within about 0.12 at 64 dimensions.
    """
    parts: list[Vectors] = []
    matrix: Vectors | None = None
    for begin in range(0, len(samples), _PIECE):
        places = range(begin, min(begin + _PIECE, len(samples)))
        found = embedder.embed([each.text for each in samples.at(places)])
        many = len(samples) * found.shape[1] > MOST if narrow is None else narrow
        if many and found.shape[1] != NARROW:
            if matrix is None:
                draw = np.random.default_rng(seed)
                matrix = (draw.standard_normal((found.shape[1], NARROW)) / np.sqrt(NARROW)).astype(np.float32)
            assert matrix is not None
            found = found @ matrix
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        parts.append(found)
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
