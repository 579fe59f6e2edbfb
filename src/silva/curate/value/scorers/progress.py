"""How much of a trajectory moved on: the share of its turns in which no symbolic rule sees waste."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.mask.rules import rules
from silva.curate.turn import read_walk
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Need, Score, Scorer, scorer


@scorer
class Progress(Scorer):
    """Waste is what `silva curate mask` masks: errors, malformed and repeated actions, blind edits, an end that
    comes too early or too late. The precision of those rules is measured (`benchmarks/masks.py`)."""

    name = "progress"
    summary = "trajectories: share of turns in which no rule of silva curate mask sees waste"
    need = Need.TRAJECTORY
    kept = False

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        asked = rules()
        made: list[Score] = []
        for sample in samples:
            assert sample.row is not None and sample.row.trajectory is not None
            walk = read_walk(sample.row.nodes, sample.row.trajectory.outcome)
            wasted = {found.turn.number for rule in asked for found in rule.find(walk)}
            count = len(walk.turns)
            made.append(Score(1 - len(wasted) / count) if count else Score(None, "the policy took no turn in it"))
        return made
