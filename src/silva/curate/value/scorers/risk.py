"""How much risk a trajectory holds: what was found on its nodes, and what its environment says of its safety."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Need, Score, Scorer, scorer


@scorer
class RiskScore(Scorer):
    """The worst of: the severity of a risk on a node, and 1 - safety. A walk that nobody looked at has no score: it
    is not safe for that."""

    name = "risk"
    summary = "trajectories: the worst risk on its nodes, or 1 - safety, in [0, 1]; less ranks higher"
    need = Need.TRAJECTORY
    higher = False
    kept = False

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        made: list[Score] = []
        for sample in samples:
            assert sample.row is not None and sample.row.trajectory is not None
            seen = [risk.severity for node in sample.row.nodes for risk in node.risks]
            safety = sample.row.trajectory.outcome.safety
            seen += [] if safety is None else [1.0 - safety]
            made.append(Score(max(seen)) if seen else Score(None, "its safety was not judged"))
        return made
