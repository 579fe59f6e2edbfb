"""Normalised loss: bits a byte of an answer, which models with other tokenizers can be compared by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from silva.curate.value.reading.likelihood import LETTERS_A_TOKEN, open_reader
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Score, Scorer, scorer


@scorer
class NormLoss(Scorer):
    """The nats of the answer in bits, over its bytes. An answer that was cut has none: which bytes were read is
    not known."""

    name = "norm_loss"
    summary = "bits a byte of the answer behind its question, or of the text; less ranks higher"
    higher = False
    Options = Asked
    relies = ("silva.curate.value.reading.likelihood", "silva.models.local.likelihood", "silva.models.local.network")

    def check(self) -> None:
        self.model()

    def model(self) -> str:
        return identity_of(self.options)

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        most = self.options.tokens * LETTERS_A_TOKEN
        read = open_reader(self.options).read([(each.question or None, each.answer) for each in samples])
        made: list[Score] = []
        for sample, each in zip(samples, read, strict=True):
            size = len(sample.answer[:most].encode("utf-8", "replace"))
            if not each.nats:
                made.append(Score(None, each.note, not each.passing))
            elif each.note:
                made.append(Score(None, f"{each.note}, of unknown bytes; raise options.norm_loss.tokens"))
            else:
                made.append(Score(sum(each.nats) / math.log(2) / size))
        return made
