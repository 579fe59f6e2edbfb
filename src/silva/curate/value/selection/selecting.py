"""Selecting: which rows stay, and of every row why.

worth ─▶ unscored out ─▶ copies out ─▶ clusters ─▶ quotas ─▶ the best of each ─▶ Selection
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from silva.curate.value.config import SelectConfig
from silva.curate.value.ranks import places as ranked
from silva.curate.value.sample import Samples
from silva.curate.value.scorer import Floats
from silva.curate.value.selection.clusters import Places, Vectors, clusters
from silva.curate.value.selection.coverage import cover
from silva.curate.value.selection.duplicates import Marks, exact, key, minhash, semantic, signatures
from silva.curate.value.selection.embedding import embed
from silva.curate.value.selection.quota import quotas
from silva.errors import UsageError
from silva.models.embedding import open_embedder

COPIES_IN = 1_000
"""Rows of a cluster, about, in which semantic copies are looked for."""

KEPT, UNSCORED, COPY, PASSED = "kept", "no score", "copy", "beyond the quota"


@dataclass(slots=True)
class Selection:
    """What became of every row, by place. `kept` are places in their order; `rank` counts from 1 among all that have a
    score, `cluster` is -1 where none was made, `copy_of` the place of the row that stayed in its stead, or -1; `within`
    the rank inside the cluster. `quota` and `size` are by cluster."""

    kept: Places
    rank: Places
    cluster: Places
    within: Places
    copy_of: Places
    fate: list[str]
    quota: list[int] = field(default_factory=list[int])
    size: list[int] = field(default_factory=list[int])

    def why(self, place: int, config: SelectConfig) -> dict[str, Any]:
        """The provenance of a kept row."""
        made: dict[str, Any] = {"by": config.by, "rank": int(self.rank[place]), "method": config.method}
        if self.cluster[place] >= 0:
            number = int(self.cluster[place])
            made |= {"cluster": number, "cluster_size": self.size[number], "quota": self.quota[number]}
            made |= {"rank_in_cluster": int(self.within[place])}
        return made | {"seed": config.seed}


def select(
    samples: Samples,
    worth: Floats,
    config: SelectConfig,
    vectors: Vectors | None = None,
    marks: Sequence[str] | Marks | None = None,
) -> Selection:
    """Choose rows.

    Args:
        samples: all rows.
        worth: of each, more is better; NaN: it has no score.
        config: how many, and how.
        vectors: of each row; made by the configured embedder if None and needed.
        marks: what copies are found by: keys or signatures of `silva.curate.value.selection.duplicates`; made if None.

    Raises:
        SilvaError: more are to be kept than can be, a row has no score and that is refused, an embedder is missing.
    """
    count = len(worth)
    rank = ranked(worth)
    order = np.argsort(np.where(rank > 0, rank, count + 1), kind="stable")
    unscored = np.isnan(worth)
    if config.unscored == "refuse" and unscored.any():
        raise UsageError(f"{int(unscored.sum())} of {count} rows have no score by {config.by}; or say unscored=drop")
    embedder = open_embedder(config.embedder)
    needs = config.method in ("cluster", "coverage") or config.duplicates == "semantic"
    if vectors is None and needs:
        vectors = embed(samples, embedder, config.seed)
    copy_of = _copies(samples, vectors, order, config, marks)
    able = np.flatnonzero(~unscored & (copy_of < 0))
    keep = _amount(config, len(able), count, int(unscored.sum()), int((copy_of >= 0).sum()))
    none = np.full(count, -1, np.int64)
    made = Selection(none, rank, none.copy(), np.zeros(count, np.int64), copy_of, [])
    made.kept = np.sort(_chosen(made, able, keep, worth, vectors, config))
    fate = np.full(count, PASSED, object)
    fate[copy_of >= 0] = COPY
    fate[unscored] = UNSCORED
    fate[made.kept] = KEPT
    made.fate = fate.tolist()
    return made


def _copies(
    samples: Samples, vectors: Vectors | None, order: Places, config: SelectConfig, marks: Sequence[str] | Marks | None
) -> Places:
    listed = order.tolist()
    if config.duplicates == "none":
        return np.full(len(order), -1, np.int64)
    if config.duplicates == "semantic":
        assert vectors is not None
        given = clusters(vectors, max(1, len(order) // COPIES_IN), config.seed)
        return semantic(vectors, given, listed, config.likeness)
    if config.duplicates == "exact":
        keys = [key(text) for text in samples.texts()] if marks is None else marks
        return exact(keys, listed)  # pyright: ignore[reportArgumentType]
    found = signatures(samples.texts()) if marks is None else marks
    return minhash(found, listed, config.likeness)  # pyright: ignore[reportArgumentType]


def _amount(config: SelectConfig, able: int, count: int, unscored: int, copies: int) -> int:
    if config.keep is None and config.share is None:
        raise UsageError("say how many rows to keep: keep=N, or share=0.1")
    left = f"{able} of {count} rows can be chosen ({unscored} have no score, {copies} are copies)"
    if not able:
        raise UsageError(f"no row can be chosen: {left}")
    if config.keep is not None:
        if config.keep > able:
            raise UsageError(f"keep={config.keep}: only {left}; lower keep, or say share")
        return config.keep
    assert config.share is not None
    return max(1, round(config.share * able))


def _chosen(
    made: Selection, able: Places, keep: int, worth: Floats, vectors: Vectors | None, config: SelectConfig
) -> Places:
    if config.method == "random":
        return np.random.default_rng(config.seed).choice(able, keep, replace=False)
    if config.method == "top":
        return able[np.argsort(made.rank[able], kind="stable")[:keep]]
    assert vectors is not None
    if config.method == "coverage":
        return able[np.array(cover(vectors[able], worth[able], keep), np.int64)]
    wanted = config.clusters or max(1, round(math.sqrt(len(able) / 2)))
    found = clusters(vectors[able], wanted, config.seed)
    sizes = np.bincount(found)
    made.size = sizes.tolist()
    made.quota = quotas(made.size, keep)
    made.cluster[able] = found
    order = np.lexsort((made.rank[able], found))  # by cluster, the best first
    starts = np.cumsum(sizes) - sizes
    within = np.empty(len(able), np.int64)
    within[order] = np.arange(len(able)) - np.repeat(starts, sizes) + 1
    made.within[able] = within
    return able[within <= np.array(made.quota, np.int64)[found]]
