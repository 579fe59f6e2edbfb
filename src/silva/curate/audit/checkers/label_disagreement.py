"""Flipped labels in labelled data: what a model of the other rows says of each (confident learning)."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.audit.heads.checking import memory
from silva.curate.rows import Row
from silva.errors import SilvaError

_FEWEST = 10
_FOLDS = 5


@checker
class LabelDisagreements(SetChecker):
    """Rows whose label a model of the other rows denies: five parts, each judged by a regression on the rest.

    Only a label of few kinds counts (a class), with at least ten rows of each. A row is named where its own label is
    less likely than that label usually is for its rows, and another more likely than that one usually is for its own
    (Northcutt et al., "Confident Learning", 2021).
    """

    name = "label_disagreement"
    risk = "label_flipping"
    family = Family.DATASET
    summary = "labels that a model of the other rows denies"
    version = "1"
    needs = ("the embedder minilm (extra embed)", "scikit-learn (extra audit)")

    def missing(self) -> str:
        """See `Checker`."""
        if importlib.util.find_spec("sklearn") is None:
            return "it needs scikit-learn, which is not installed: pip install 'silva[audit]'"
        try:
            memory(self.settings.embedder or "minilm")
        except SilvaError as error:
            return str(error)
        return ""

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`."""
        named = [row for row in rows if isinstance(row.label, str | bool | int) and row.text.strip()]
        counts = Counter(str(row.label) for row in named)
        known = sorted(label for label, count in counts.items() if count >= _FEWEST)
        able = [row for row in named if str(row.label) in known]
        if len(known) < 2 or len(known) > len(able) / _FEWEST:
            yield NotChecked(why=f"the rows have no labels of two kinds or more with {_FEWEST} rows each")
            return
        ids = {row.id for row in able}
        yield from (NotChecked(row_id=r.id, why="it has no label of a common kind") for r in rows if r.id not in ids)
        labels = np.array([known.index(str(row.label)) for row in able])
        chances = _out_of_fold(memory(self.settings.embedder or "minilm").of([row.text for row in able]), labels)
        usual = np.array([chances[labels == label, label].mean() for label in range(len(known))])
        for row, label, said in zip(able, labels, chances, strict=True):
            over = [other for other in range(len(known)) if other != label and said[other] >= usual[other]]
            if said[label] < usual[label] and over:
                best = max(over, key=lambda other: said[other])
                told = f"labelled {known[label]}; rows like it are labelled {known[best]} (chance {said[best]:.2f})"
                yield self.finding(row, score=round(float(1 - said[label]), 4), evidence=told)


def _out_of_fold(vectors: Any, labels: Any) -> Any:
    """The chance of each label for each row, by a model that did not see the row, [rows, labels]."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    return cross_val_predict(LogisticRegression(C=10, max_iter=400), vectors, labels, cv=folds, method="predict_proba")
