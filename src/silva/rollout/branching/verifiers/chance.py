"""`random`: the control. Its scores are drawn from the search's seed and know nothing of the candidates."""

from __future__ import annotations

from random import Random

from silva.rollout.acted import Acted
from silva.rollout.branching.verifiers.verifier import Case, Ruling


class Chance:
    """Scores by lot."""

    name = "random"
    margin = 0.0

    async def judge(self, case: Case) -> Ruling:
        """See `Verifier`."""
        lot = Random(case.seed)
        return Ruling(scores=tuple(lot.random() for _ in case.candidates), acted=Acted(role="verifier", by=self.name))
