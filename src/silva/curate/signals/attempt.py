"""An attempt as readers see it: its walk as turns, when it was made, and what was said about its turns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from silva.curate.turn import Turn, Walk
from silva.tree import Supervision, Trajectory


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """`step` counts the moments at which attempts were made, from 0: attempts of one step know nothing of each other.
    `judged` holds what decides about each of its nodes that somebody judged."""

    trajectory: Trajectory
    walk: Walk
    step: int
    judged: Mapping[str, Supervision]

    @property
    def score(self) -> float | None:
        """What it reached, from 0 to 1; None where that was not measured: a failure is no score."""
        outcome = self.trajectory.outcome
        return None if outcome.failure is not None else outcome.score

    @property
    def actions(self) -> tuple[str, ...]:
        """Its actions as text; two that read the same are the same action."""
        return tuple(map(action, self.walk.turns))


def action(turn: Turn) -> str:
    """What is done in a turn, without the ids of its calls."""
    said = turn.action.message.text.strip()
    return json.dumps([said, *(call.key for call in turn.calls)])


def by_group(attempts: Iterable[Attempt]) -> dict[tuple[int, str], list[Attempt]]:
    """The attempts at each task of each step."""
    found: dict[tuple[int, str], list[Attempt]] = {}
    for each in attempts:
        found.setdefault((each.step, each.trajectory.task_id), []).append(each)
    return found


def parting(attempt: Attempt, others: Sequence[Attempt]) -> Turn | None:
    """The turn in which a walk leaves the last of the others that began as it did: where it chose what none of them
    did, or its last one. None where it has no turn."""
    turns, mine = attempt.walk.turns, attempt.actions
    if not turns:
        return None
    shared = max((_shared(mine, other.actions) for other in others), default=len(mine))
    return turns[min(shared, len(turns) - 1)]


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
