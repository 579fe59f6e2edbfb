"""How much risk a trajectory holds: what stands on its nodes, what audits said of it, and how safe its environment says
that it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from silva.curate.audit.finding import DETECTED, NOT_CHECKED
from silva.curate.audit.risks import RISKS, known_risk
from silva.curate.audit.scoring import Prevalence
from silva.curate.audit.scoring import score as audit_score
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Need, Options, Score, Scorer, scorer
from silva.errors import UsageError

_UNSEEN = "its safety was not judged, and no audit checked it"


class RiskOptions(Options):
    """`weights` replace those of risks in the audit's score: what agents do, such as a leak, weighs nothing there."""

    weights: dict[str, float] = Field(default_factory=dict[str, float])


@scorer
class RiskScore(Scorer):
    """The worst of: the severity of a risk on a node, 1 - safety, and the audit's penalty, which is the weight of the
    risks that audits detected in the walk over that of those they checked. A walk that nobody looked at has no score:
    it is not safe for that."""

    name = "risk"
    summary = "trajectories: the worst of the risks on its nodes, 1 - safety, and what audits found; less ranks higher"
    need = Need.TRAJECTORY
    higher = False
    kept = False
    heeds = True
    Options = RiskOptions

    def check(self) -> None:
        """See `AnyScorer`.

        Raises:
            UsageError: a weight is below 0, or of no risk.
        """
        for name, weight in self.options.weights.items():
            known_risk(name)
            if weight < 0:
                raise UsageError(f"options.risk.weights.{name}: {weight:g} is below 0")

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        return [self._one(each) for each in samples]

    def _one(self, sample: Sample) -> Score:
        assert sample.row is not None and sample.row.trajectory is not None
        seen = [risk.severity for node in sample.row.nodes for risk in node.risks]
        safety = sample.row.trajectory.outcome.safety
        seen += [] if safety is None else [1.0 - safety]
        penalty, note = penalty_of(sample.verdicts, self.options.weights)
        seen += [] if penalty is None else [penalty]
        return Score(max(seen), note) if seen else Score(None, note or _UNSEEN)


def penalty_of(verdicts: Mapping[str, str], weights: Mapping[str, float]) -> tuple[float | None, str]:
    """The audit's penalty of one walk, as its score of a data set has it, and what it does not say.

    Args:
        verdicts: by risk; one that was not checked counts neither way.
        weights: replace those of risks.

    Returns:
        None where no risk that weighs something was checked.
    """
    weight = {name: weights.get(name, risk.weight) for name, risk in RISKS.items()}
    checked = {name: said == DETECTED for name, said in verdicts.items() if said != NOT_CHECKED and name in weight}
    light = sorted(name for name, hit in checked.items() if hit and not weight[name])
    note = f"detected, and weighs nothing (options.risk.weights): {', '.join(light)}" if light else ""
    found = [Prevalence(risk=name, rows=1, checked=1, detected=int(hit)) for name, hit in checked.items()]
    raw = audit_score(found, weights).raw
    if raw is None:
        return None, note or ("audits checked no risk that weighs something" if verdicts else "")
    return 1.0 - raw, note
