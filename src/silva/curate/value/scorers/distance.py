"""How far a row is from others: from what is held out, or from its nearest neighbour in the set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from silva.curate.rows import read
from silva.curate.value.sample import Samples
from silva.curate.value.scorer import Floats, Need, Options, Score, SetScorer, scorer
from silva.curate.value.selection.clusters import Vectors, pieces
from silva.curate.value.selection.embedding import embed
from silva.errors import UsageError
from silva.models.embedding import open_embedder

MOST = 60_000
"""Rows whose nearest neighbours are looked for in the set itself: all pairs are compared."""


class DistanceOptions(Options):
    """`held_out`: a file of rows; "" for the set itself. `embedder`: what vectors are made of. `higher`: whether far
    is worth more (new things) or near (like what is held out)."""

    held_out: str = ""
    embedder: str = "hashed"
    higher: bool = True


@scorer
class Distance(SetScorer):
    """1 - the cosine to the nearest one. It depends on the other rows, so it is not kept."""

    name = "distance"
    summary = "1 - cosine to the nearest row of the set, or of a held-out file (options.distance.held_out)"
    need = Need.TEXT
    Options = DistanceOptions

    def check(self) -> None:
        open_embedder(self.options.embedder)

    def worth(self, values: Floats) -> Floats:
        return values if self.options.higher else -values

    def score(self, samples: Samples, parts: Mapping[str, Floats]) -> Sequence[Score]:
        embedder = open_embedder(self.options.embedder)
        vectors = embed(samples, embedder)
        if self.options.held_out:
            others = embed(Samples.of_rows(read(self.options.held_out)), embedder)
            near = np.concatenate([(part @ others.T).max(axis=1) for part in pieces(vectors)])
        elif len(samples) > MOST:
            raise UsageError(f"scorer distance: {len(samples)} rows are too many; give options.distance.held_out")
        else:
            near = _neighbours(vectors)
        silent = ~np.any(vectors, axis=1)
        return [
            Score(None, "it has no word") if quiet else Score(float(1 - cosine))
            for cosine, quiet in zip(near, silent, strict=True)
        ]


def _neighbours(vectors: Vectors) -> np.ndarray:
    if len(vectors) < 2:
        return np.zeros(len(vectors))
    found: list[np.ndarray] = []
    begin = 0
    for part in pieces(vectors):
        alike = part @ vectors.T
        alike[np.arange(len(part)), begin + np.arange(len(part))] = -1.0
        found.append(alike.max(axis=1))
        begin += len(part)
    return np.concatenate(found)
