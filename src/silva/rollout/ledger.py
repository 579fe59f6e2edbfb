"""What a run has spent and how it is going: the running totals behind budgets, progress and the early stop."""

from __future__ import annotations

import time
from collections import Counter

from silva.rollout.config import Budget
from silva.tree import NO_USAGE, Boundary, Failure, Status, Trajectory, Usage

HOPELESS_AFTER = 20
"""So many episodes in a row that failed at the model, with none that did not, end the run: the model is not there."""


class Ledger:
    """Totals of a run, a resumed run's earlier part counted in."""

    def __init__(self, budget: Budget, earlier: list[Trajectory]) -> None:
        self._budget = budget
        self._bounded = (budget.tokens, budget.usd, budget.seconds) != (None, None, None)
        self._clock = time.monotonic()
        self._earlier_seconds = _busy_seconds(earlier)
        self.usage = NO_USAGE
        self.ended = 0
        self.turns = 0
        self.scored = 0
        self.successes = 0
        self.failures: Counter[str] = Counter()
        self.last_model_failure = ""
        self.hopeless = False
        """Whether only model failures came for `HOPELESS_AFTER` episodes in a row. It stays so: the run ends for it,
        whatever the episodes still under way come to."""
        self._model_failures = 0
        self._attempts = 0
        for trajectory in earlier:
            self.add(trajectory)
        self.hopeless = False
        self._model_failures = self._attempts = 0
        self.before = self.ended

    def add(self, trajectory: Trajectory) -> None:
        """Count an attempt that has ended."""
        self.usage = self.usage + trajectory.usage
        self.turns += trajectory.turns
        outcome = trajectory.outcome
        self._attempts += 1
        failure = outcome.failure
        if failure is not None and failure.boundary is Boundary.MODEL and failure.code != "model.context_length":
            self._model_failures += 1
            self.last_model_failure = failure.message
            self.hopeless = self.hopeless or self._model_failures >= HOPELESS_AFTER
        else:
            self._model_failures = 0
        if trajectory.superseded:
            self.failures["retried"] += 1
            return
        self.ended += 1
        if outcome.status is Status.FAILED and outcome.failure is not None:
            self.failures[outcome.failure.boundary.value] += 1
        elif outcome.success is not None:
            self.scored += 1
            self.successes += outcome.success

    @property
    def seconds(self) -> float:
        """Wall time of this run so far."""
        return self._earlier_seconds + time.monotonic() - self._clock

    @property
    def session_seconds(self) -> float:
        """Wall time since this process took up the run."""
        return time.monotonic() - self._clock

    @property
    def fruitless(self) -> bool:
        """Whether this process saw episodes end, every one of them at a model that could not be had."""
        return 0 < self._attempts == self._model_failures

    def overdrawn(self, more: Usage = NO_USAGE) -> Failure | None:
        """The budget failure that further turns would be, or None while there is budget."""
        if not self._bounded:
            return None
        used = self.usage + more
        tokens = used.prompt_tokens + used.completion_tokens
        limits = (
            ("tokens", tokens, self._budget.tokens),
            ("usd", used.usd, self._budget.usd),
            ("seconds", self.seconds, self._budget.seconds),
        )
        for name, spent, limit in limits:
            if limit is not None and spent >= limit:
                return Failure(
                    boundary=Boundary.BUDGET,
                    code=f"budget.{name}",
                    message=f"the run's budget of {limit:g} {name} is spent ({spent:g}): raise it and --resume",
                )
        return None


def _busy_seconds(earlier: list[Trajectory]) -> float:
    # The union of the episodes' spans: the night between a stop and its resume is no time of the run.
    total, until = 0.0, 0.0
    for start, end in sorted((t.started, t.finished) for t in earlier):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
