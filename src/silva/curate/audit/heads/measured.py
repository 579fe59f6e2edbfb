"""Rows measured for a head: its units, and their features in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from silva.curate.audit.heads.features import BUCKETS, Vectors, cut, differences, grams, paired
from silva.curate.audit.heads.specs import Spec
from silva.curate.audit.heads.stance import stance, stance_features
from silva.curate.audit.heads.views import Unit
from silva.curate.rows import Row
from silva.models.embedding import Embedder

_BATCH = 512
_MOST_KEPT = 50_000
"""Embeddings that are kept, 1.5 kB each."""
_EMBEDDED = 1200
"""Characters of a text that are embedded: an encoder of 256 tokens reads no more."""


class Measured(NamedTuple):
    """Units of rows: `rows[i]` is the number of the row of unit `i`; `dense` and `counts` (empty for pairs) are what
    `Head.score` takes."""

    units: list[Unit]
    rows: list[int]
    dense: Vectors
    counts: Vectors


class Memory:
    """Embeddings of texts, each made once, whichever heads ask.

    Args:
        embedder: makes them.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._known: dict[str, Vectors] = {}

    def of(self, texts: Sequence[str]) -> Vectors:
        """Unit embeddings, [texts, d]."""
        short = [cut(text[:_EMBEDDED]) for text in texts]
        missing = list(dict.fromkeys(text for text in short if text not in self._known))
        for begin in range(0, len(missing), _BATCH):
            part = missing[begin : begin + _BATCH]
            self._known.update(zip(part, self.embedder.embed(part), strict=True))
        made = np.stack([self._known[text] for text in short]) if short else np.zeros((0, 0), np.float32)
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        return made


def measure(spec: Spec, rows: Sequence[Row], memory: Memory) -> Measured:
    """The units that a head sees in rows, and their features."""
    units = [(number, unit) for number, row in enumerate(rows) for unit in _units(spec, row)]
    right = memory.of([unit.right for _, unit in units])
    if spec.kind == "text":
        return _measured(units, right, [grams(unit.right) for _, unit in units])
    left = memory.of([unit.left for _, unit in units])
    if spec.kind == "pair" and units and spec.near > -1:
        kept = np.flatnonzero((left * right).sum(axis=1) >= spec.near)
        units, left, right = [units[at] for at in kept], left[kept], right[kept]
    if spec.kind == "pair":
        apart = [differences(unit.left, unit.right) for _, unit in units]
        return _measured(units, paired(left, right, apart) if units else right, [])
    if spec.kind == "stance":
        said = [each for _, unit in units if (each := stance(unit.left, unit.right)) is not None]
        view, claim = memory.of([each.view for each in said]), memory.of([each.claim for each in said])
        told = [unit.right for _, unit in units]
        return _measured(units, stance_features(said, told, view, claim, right) if said else right, [])
    dense = np.hstack([right, left]) if units else right
    if spec.kind == "reply":
        return _measured(units, dense, [grams(unit.right) for _, unit in units])
    # of a preference: what is preferred less what is not, so that a change of sides changes the sign alone
    pairs = [
        (one, other)
        for one in range(len(units))
        for other in range(one + 1, len(units))
        if units[one][0] == units[other][0] and units[one][1].left == units[other][1].left
    ]
    chosen = [units[one] for one, _ in pairs]
    counts = [grams(units[one][1].right) - grams(units[other][1].right) for one, other in pairs]
    sides = [right[one] - right[other] for one, other in pairs]
    return _measured(chosen, np.stack(sides) if sides else np.zeros((0, 0), np.float32), counts)


def _units(spec: Spec, row: Row) -> list[Unit]:
    if spec.kind != "preference":
        return list(spec.view(row))
    found = list(spec.view(row)) if row.rejected else []
    last = {row.nodes[-1].id, row.rejected[-1].id} if row.rejected else set[str]()
    return [unit for unit in found if unit.node.id in last]


def _measured(units: list[tuple[int, Unit]], dense: Vectors, counts: list[Vectors]) -> Measured:
    stacked = np.stack(counts) if counts else np.zeros((0, BUCKETS), np.float32)
    return Measured([unit for _, unit in units], [row for row, _ in units], dense, stacked)
