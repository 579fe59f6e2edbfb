"""Perplexity: how surprised a model is by each token of an answer behind its question, or of a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from silva.curate.value.reading.likelihood import open_reader
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Score, Scorer, scorer


@scorer
class Perplexity(Scorer):
    """exp of the mean nats a token. Less is what the model expects; noise has most."""

    name = "ppl"
    summary = "perplexity of the answer behind its question, or of the text; less ranks higher"
    higher = False
    Options = Asked
    relies = ("silva.curate.value.reading.likelihood", "silva.models.local.likelihood", "silva.models.local.network")

    def check(self) -> None:
        self.model()

    def model(self) -> str:
        return identity_of(self.options)

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        read = open_reader(self.options).read([(each.question or None, each.answer) for each in samples])
        return [
            Score(math.exp(min(fmean(each.nats), 700.0)), each.note)
            if each.nats
            else Score(None, each.note, not each.passing)
            for each in read
        ]
