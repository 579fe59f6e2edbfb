"""A score from a classifier's classes: what the scorers that need a classifier of the user's share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from silva.curate.value.reading.classing import classify
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Score, Scorer
from silva.errors import UsageError


class ClassifierOptions(Asked):
    """`model`: a folder of weights (`local:FOLDER`) or an endpoint that serves a classifier. `labels`: what each of its
    labels counts, {"High": 2, "Low": 0}; without, a label counts by its place, or by its own number."""

    model: str = ""
    tokens: int = Field(default=512, ge=16)
    labels: dict[str, float] = Field(default_factory=dict[str, float])


class ClassifierScorer(Scorer):
    """The expected worth of a text's label, or the one number that a model with one output gives. `weights` is what the
    scorer is published as."""

    Options = ClassifierOptions
    weights: ClassVar[str] = ""
    relies = ("silva.curate.value.reading.classing",)

    def check(self) -> None:
        """Raises UsageError: no classifier is named."""
        if not self.options.model:
            raise UsageError(
                f"scorer {self.name}: needs a classifier: options.{self.name}.model=local:FOLDER with the weights of "
                f"{self.weights}, or http://HOST/v1#NAME that serves it (/classify or /predict); offline there is "
                "quality_rules"
            )
        self.model()

    def model(self) -> str:
        return identity_of(self.options)

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        return [
            Score(self._worth(each.shares), each.note) if each.shares else Score(None, each.note, not each.passing)
            for each in classify(self.options, [sample.text for sample in samples])
        ]

    def _worth(self, shares: dict[str, float]) -> float:
        if "" in shares:
            return shares[""]
        told = self.options.labels
        if told and (missing := sorted(set(shares) - set(told))):
            raise UsageError(
                f"options.{self.name}.labels: says nothing of {missing[0]!r}; the model has {', '.join(shares)}"
            )
        weights = told or {label: float(place) for place, label in enumerate(shares)}
        return sum(share * weights[label] for label, share in shares.items())
