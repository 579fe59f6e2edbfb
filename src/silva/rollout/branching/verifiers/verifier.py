"""A verifier: it scores the candidates of one search, from what each was answered or from what could come of it.

Case (the episode, the ground, candidates with their answers) ─▶ Verifier.judge ─▶ Ruling: a score each, and why
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeVar

import msgspec

from silva.envs import Observation
from silva.rollout.acted import Acted
from silva.rollout.agent import Turn
from silva.rollout.branching.probing import Ground
from silva.rollout.live import Live
from silva.tree import NO_USAGE, Json, Message, Record, Usage

_T = TypeVar("_T")


@dataclass(slots=True)
class Candidate:
    """One action that could be taken. `number`: which draw it was, from 0; `started`: Unix seconds; `drawn`: how many
    draws said the same; `answer`: what a copy of the environment answered; `error`: why it was not tried."""

    number: int
    turn: Turn
    started: float
    drawn: int = 1
    answer: Observation | None = None
    error: str = ""

    @property
    def action(self) -> Message:
        """What would be done."""
        return self.turn.message

    @property
    def over(self) -> bool:
        """Whether the episode is over behind it."""
        return self.answer is not None and (self.answer.done or self.answer.truncated)


@dataclass(slots=True)
class Bill:
    """What a search has spent so far; the episode's budget sees it at once."""

    live: Live
    spent: Usage = NO_USAGE

    def add(self, usage: Usage) -> None:
        """Count what was spent."""
        self.spent = self.spent + usage
        self.live.path.usage = self.live.path.usage + usage


@dataclass(frozen=True, slots=True)
class Case:
    """What a verifier judges. `candidates` are those that were tried, at least two; `seed` is this search's own, of
    the run's seed, the task, the place in the group and the turn."""

    live: Live
    ground: Ground
    candidates: Sequence[Candidate]
    seed: int
    bill: Bill


class Ruling(Record, frozen=True, kw_only=True):
    """What a verifier says. `scores`: one for each candidate, the larger the better, None where it cannot say; `facts`:
    what else is worth keeping of this search, numbers are summed over a run."""

    scores: tuple[float | None, ...]
    acted: Acted
    why: str = ""
    facts: Json = msgspec.field(default_factory=dict[str, Any])


class Verifier(Protocol):
    """Anything that can judge candidates. An instance belongs to one episode."""

    name: str
    """What it is registered as."""
    margin: float
    """Scores that lie no further apart are equal."""

    async def judge(self, case: Case) -> Ruling:
        """Score the candidates.

        Raises:
            ModelError: a model that it asks cannot be had.
            Ended: the budget is spent.
            EnvError: a copy of the environment failed.
        """
        ...


@dataclass(slots=True)
class Meter:
    """Counts what one verifier spends: on the search's bill, and for its `Acted`; and the `steps` that it takes in
    copies of the environment."""

    bill: Bill
    usage: Usage = NO_USAGE
    steps: int = 0

    def add(self, usage: Usage) -> None:
        """Count what was spent."""
        self.usage = self.usage + usage
        self.bill.add(usage)

    async def waited(self, doing: Awaitable[_T]) -> _T:
        """What comes of a call of an environment, its time counted."""
        began = perf_counter()
        try:
            return await doing
        finally:
            self.add(Usage(env_seconds=perf_counter() - began))
