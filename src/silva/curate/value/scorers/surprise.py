"""How surprised the policy was by what it did itself: the mean nats of the tokens it sampled."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Need, Score, Scorer, scorer


@scorer
class Surprise(Scorer):
    """By the log-probabilities that were kept when it was sampled; nothing is computed anew, and a walk without them
    has no score."""

    name = "surprise"
    summary = "trajectories: mean nats of the policy's own sampled tokens, as kept; more is rarer"
    need = Need.TRAJECTORY
    kept = False

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        made: list[Score] = []
        for sample in samples:
            nodes = sample.row.nodes if sample.row is not None else ()
            told = [value for node in nodes if node.tokens is not None for value in node.tokens.logprobs]
            made.append(Score(-sum(told) / len(told)) if told else Score(None, "no log-probabilities were kept"))
        return made
