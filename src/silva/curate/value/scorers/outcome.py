"""What a trajectory came to: the environment's own mark."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Need, Score, Scorer, scorer


@scorer
class OutcomeScore(Scorer):
    """The score, or 1 and 0 for success where there is no score. A failure is not a score of 0."""

    name = "outcome"
    summary = "trajectories: the environment's mark in [0, 1]; what failed has none"
    need = Need.TRAJECTORY
    kept = False

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        return [self._one(each) for each in samples]

    def _one(self, sample: Sample) -> Score:
        assert sample.row is not None and sample.row.trajectory is not None
        outcome = sample.row.trajectory.outcome
        if outcome.failure is not None:
            return Score(None, f"it failed: {outcome.failure.code}")
        if outcome.score is not None:
            return Score(outcome.score)
        return Score(None, "it was not scored") if outcome.success is None else Score(float(outcome.success))
