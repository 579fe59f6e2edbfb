"""Instruction-following difficulty (Li et al., From Quantity to Quality, 2024): what a question does for its answer.

mean nats of the answer behind its question / mean nats of the answer alone
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from silva.curate.value.reading.likelihood import open_reader
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Floats, Need, Score, Scorer, scorer


@scorer
class InstructionFollowingDifficulty(Scorer):
    """Near 0 the question says it all; near 1 it says nothing, so there is something to learn; above 1 it makes the
    answer less likely: the two do not belong together, and rank below all others."""

    name = "ifd"
    summary = "nats of the answer behind its question over those of it alone; more ranks higher, above 1 lowest"
    need = Need.PAIR
    Options = Asked
    relies = ("silva.curate.value.reading.likelihood", "silva.models.local.likelihood", "silva.models.local.network")

    def check(self) -> None:
        self.model()

    def model(self) -> str:
        return identity_of(self.options)

    def worth(self, values: Floats) -> Floats:
        return np.where(values > 1.0, -values, values)

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        reader = open_reader(self.options)
        behind_all = reader.read([(each.question, each.answer) for each in samples])
        alone_all = reader.read([(None, each.answer) for each in samples])
        made: list[Score] = []
        for behind, alone in zip(behind_all, alone_all, strict=True):
            missing = next((each for each in (behind, alone) if not each.nats), None)
            count = min(len(behind.nats), len(alone.nats))  # an endpoint tells nothing of the first token of a text
            if missing is not None:
                made.append(Score(None, missing.note, not missing.passing))
            elif not (bare := fmean(alone.nats[-count:] if not alone.note else alone.nats[:count])) > 0:
                made.append(Score(None, "the model is sure of the whole answer without the question"))
            else:
                given = behind.nats[-count:] if not behind.note else behind.nats[:count]
                made.append(Score(fmean(given) / bare, behind.note or alone.note))
        return made
