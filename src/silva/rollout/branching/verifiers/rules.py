"""`rules`: what the environment itself says of each candidate: its reward, progress by its checker, an error, a risk.

    score = reward of the answer + (checker's score behind it - before it) - 1 where an error or a risk was answered

No model is asked. The checker is the environment's, so a task's own truth is read here, as a trainer's reward would be.
"""

from __future__ import annotations

from silva.envs import EnvError
from silva.rollout.acted import Acted
from silva.rollout.branching.choice import answered_badly
from silva.rollout.branching.probing import Unreached, at_once
from silva.rollout.branching.verifiers.verifier import Candidate, Case, Meter, Ruling


class Rules:
    """Scores by reward, progress and errors.

    Args:
        reward: how much a reward counts.
        progress: how much the checker's score counts.
        error: what an answer that tells of an error or a risk costs.
    """

    name = "rules"
    margin = 0.0

    def __init__(self, reward: float = 1.0, progress: float = 1.0, error: float = 1.0) -> None:
        self._reward, self._progress, self._error = reward, progress, error

    async def judge(self, case: Case) -> Ruling:
        """See `Verifier`."""
        meter = Meter(case.bill)
        before, *behind = await at_once(self._checked(case, each, meter) for each in (None, *case.candidates))
        scores: list[float | None] = []
        errors = 0
        for candidate, after in zip(case.candidates, behind, strict=True):
            answer = candidate.answer
            assert answer is not None
            bad = bool(answer.risks) or any(answered_badly(each) for each in answer.messages)
            errors += bad
            moved = after - before if after is not None and before is not None else 0.0
            scores.append(self._reward * (answer.reward or 0.0) + self._progress * moved - self._error * bad)
        acted = Acted.of("verifier", self.name, meter.usage)
        return Ruling(scores=tuple(scores), acted=acted, facts={"errors": errors})

    async def _checked(self, case: Case, candidate: Candidate | None, meter: Meter) -> float | None:
        """The checker's score behind a candidate, or before all of them; None where it has none to give."""
        if not self._progress:
            return None
        assert case.live.another is not None
        async with case.live.another() as env:
            try:
                await meter.waited(case.ground.bring(env))
                if candidate is not None:
                    await meter.waited(env.step(candidate.action))
                return (await meter.waited(env.evaluate())).score
            except (EnvError, Unreached):
                return None
