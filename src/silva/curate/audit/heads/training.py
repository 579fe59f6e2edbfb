"""Training heads: the training half of the corpora, a logistic regression, a file of weights.

Items of a head's own corpora are its positives and, where they lack the risk, its hard negatives; ordinary rows are its
negatives besides. Of an item with the risk what is said last is taken for risky, and of many pairs of sentences the
most alike pair; of an item without it all that is said is taken for harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from silva.curate.audit.corpus import Item, find_corpus
from silva.curate.audit.heads.features import Vectors, weighted
from silva.curate.audit.heads.head import FOLDER, write_head
from silva.curate.audit.heads.measured import Measured, Memory, measure
from silva.curate.audit.heads.specs import SPECS
from silva.errors import MissingError, UsageError

STRENGTH = 1.0
"""Inverse of the regression's penalty, the same for all heads."""
_ORDINARY = "ordinary"
_NEGATIVE_PAIRS = 6
"""Pairs of sentences of one honest reply that are taken: there are many, and all alike."""


def train(
    name: str,
    memory: Memory,
    *,
    folder: Path = FOLDER,
    told: Callable[[str], None] = lambda _: None,
    every: bool = False,
) -> Path:
    """Train a head and write it; return its file.

    Args:
        name: of `SPECS`.
        memory: embeddings.
        folder: where weights go.
        told: is told what is trained on.
        every: train on held-out items too, for weights that no card is made of.

    Raises:
        UsageError: there is no such head, or a corpus has no item with the risk.
        MissingError: a corpus or scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError as fault:
        raise MissingError("training heads needs scikit-learn: pip install 'silva[audit]'") from fault
    if name not in SPECS:
        raise UsageError(f"audit: there is no head {name!r}; there are: {', '.join(SPECS)}")
    spec = SPECS[name]
    items: list[Item] = []
    origins: dict[str, str] = {}
    for each in (*spec.corpora, _ORDINARY):
        found = find_corpus(each)
        if why := found.missing():
            raise MissingError(f"curate heads {name}: {why}")
        taught = {item.row.id: item for item in found.items() if every or not item.held_out}
        items += taught.values()
        origins[each] = f"{found.licence}: {found.origin}"
    measured = measure(spec, [item.row for item in items], memory)
    labels, kept = _labels(spec.risk, items, measured)
    if spec.kind == "preference":
        labels, kept = _both_sides(labels, kept)
    if not 0 < sum(labels) < len(labels):
        raise UsageError(f"curate heads {name}: its corpora hold no item with the risk, or none without")
    signs = np.array([sign for _, sign in kept], np.float32)[:, None]
    places = [place for place, _ in kept]
    dense = measured.dense[places] * signs
    counts = measured.counts[places] * signs if len(measured.counts) else measured.counts
    rarity = _rarity(counts)
    given = np.hstack([dense, weighted(counts, rarity)]) if len(counts) else dense
    model: Any = LogisticRegression(
        C=STRENGTH * (10 if spec.kind != "pair" else 1), class_weight="balanced", max_iter=400
    )
    model.fit(given, labels)
    weights = model.coef_[0].astype(np.float32)
    bias = 0.0 if spec.kind == "preference" else float(model.intercept_[0])
    told(f"{name}: {sum(labels)} risky and {len(labels) - sum(labels)} other units of {', '.join(origins)}")
    facts = {
        "head": name,
        "least": _least(model, given, labels, [items[measured.rows[place]].trap for place in places], spec.traps),
        "embedder": memory.embedder.digest,
        "corpora": origins,
        "risky": int(sum(labels)),
        "others": int(len(labels) - sum(labels)),
        "every": every,
    }
    width = dense.shape[1]
    return write_head(name, weights[:width], weights[width:], rarity, bias, facts, folder)


def _least(model: Any, given: Vectors, labels: list[int], traps: list[bool], share: float | None) -> float:
    """The score that only so many traps reach, by models that did not see them; 0 where no share is set."""
    if share is None:
        return 0.0
    from sklearn.model_selection import cross_val_predict

    said: Any = cross_val_predict(model, given, labels, cv=5, method="predict_proba")
    scores = said[:, 1]
    return float(np.quantile(scores[np.array(traps)], 1 - share))


def _labels(risk: str, items: Sequence[Item], measured: Measured) -> tuple[list[int], list[tuple[int, float]]]:
    """The labels of the units that are taken, and each one's place with the sign of its features."""
    by_row: dict[int, list[int]] = {}
    for place, row in enumerate(measured.rows):
        by_row.setdefault(row, []).append(place)
    labels: list[int] = []
    kept: list[tuple[int, float]] = []
    for row, places in by_row.items():
        risky = risk in items[row].risks
        if len(places) > 2 and measured.units[places[0]].left:
            alike = {place: _alike(measured.units[place].left, measured.units[place].right) for place in places}
            places = sorted(places, key=lambda place: -alike[place])[: 1 if risky else _NEGATIVE_PAIRS]
        elif risky and not measured.units[places[0]].left:
            whole = [place for place in places if not measured.units[place].stop]
            places = whole[-1:]
        for place in places:
            labels.append(int(risky))
            kept.append((place, 1.0))
    return labels, kept


def _alike(left: str, right: str) -> float:
    a, b = set(left.lower().split()), set(right.lower().split())
    return len(a & b) / (len(a | b) or 1)


def _both_sides(labels: list[int], kept: list[tuple[int, float]]) -> tuple[list[int], list[tuple[int, float]]]:
    """Every pair also with its sides changed: what was flipped then is not, and the other way about."""
    return [*labels, *(1 - label for label in labels)], [*kept, *((place, -sign) for place, sign in kept)]


def _rarity(counts: Vectors) -> Vectors:
    if not len(counts):
        return np.zeros(0, np.float32)
    seen = (counts != 0).sum(axis=0)
    return (np.log((1 + len(counts)) / (1 + seen)) + 1).astype(np.float32) * (seen > 1)
