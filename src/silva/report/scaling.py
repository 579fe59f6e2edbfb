"""Test-time scaling: the score an attempt has come to after so many turns, and after so much time.

    attempt ─▶ readings: (turn, seconds, score) ─▶ at each budget: the best so far, and the last ─▶ mean over attempts
               the scores it was told on the way, and in the end the one it got

Before its first reading an attempt has nothing, 0; after its end it keeps what it has. So the curve says what a budget
of turns or hours buys; where best and last part, agents go on past their best (APOLLO, section 5).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from silva.report.interval import Interval, mean
from silva.report.summary import counted
from silva.tree import Author, Node, Record, Trajectory
from silva.tree.copies import turn_at

POINTS = 40
"""Budgets a curve has at most."""

_SAID = re.compile(r"score (?P<score>[01](?:\.\d+)?(?:e-\d+)?) of 1\b")
"""How an environment answers who asks for a score."""


class Reading(NamedTuple):
    """A score an attempt had at a turn (from 1), so many seconds after its beginning."""

    turn: int
    seconds: float
    score: float


class Budget(Record, frozen=True, kw_only=True):
    """What attempts have come to within `at` (turns or seconds): means of the `best` score so far and of the `last`,
    each with its 95 % interval by task; `ended`: the share of attempts that are over by then."""

    at: float
    best: Interval
    last: Interval
    ended: float


class Scaling(Record, frozen=True, kw_only=True):
    """The curves of a run's scored attempts, by turns and by seconds. `told`: how many were told a score on the way."""

    attempts: int
    told: int
    turns: tuple[Budget, ...]
    seconds: tuple[Budget, ...]


class _Attempt(NamedTuple):
    readings: tuple[Reading, ...]
    turns: int
    seconds: float


def scaling(
    trajectories: Iterable[Trajectory], walk: Callable[[Trajectory], Sequence[Node]] | None = None
) -> Scaling | None:
    """The curves of attempts; None where none was scored.

    Args:
        trajectories: of one run; superseded ones, and those nobody scored, are left out.
        walk: the nodes of an attempt, root first; called for those that asked for a score. None: ends alone count.
    """
    by_task: dict[tuple[str, str], list[_Attempt]] = defaultdict(list)
    told = 0
    for each in counted(trajectories):
        if each.outcome.score is None:
            continue
        asked = walk is not None and each.leaf_id is not None and each.outcome.metrics.get("evaluations", 0) > 0
        said = readings(walk(each), each.started) if walk is not None and asked else []
        told += bool(said)
        seconds = max((each.seconds, *(one.seconds for one in said)))
        end = Reading(max(1, each.turns, *(one.turn for one in said)), seconds, each.outcome.score)
        by_task[each.env, each.task_id].append(_Attempt((*said, end), end.turn, seconds))
    clusters = list(by_task.values())
    if not clusters:
        return None
    everyone = [attempt for cluster in clusters for attempt in cluster]
    longest = max(each.turns for each in everyone)
    every = -(-longest // POINTS)
    slowest = max(each.seconds for each in everyone)
    return Scaling(
        attempts=len(everyone),
        told=told,
        turns=tuple(
            _budget(clusters, at, lambda each: each.turn, lambda each: each.turns)
            for at in sorted({*range(every, longest + 1, every), longest})
        ),
        seconds=tuple(
            _budget(clusters, slowest * part / POINTS, lambda each: each.seconds, lambda each: each.seconds)
            for part in range(1, POINTS + 1)
        )
        if slowest > 0
        else (),
    )


def readings(nodes: Iterable[Node], started: float) -> list[Reading]:
    """The scores an agent was told on a walk, in order. Words of the agent's own, or of a task, tell none."""
    found: list[Reading] = []
    turn, latest = 0, 0.0
    for node in nodes:
        if turn_at(node):
            turn += 1
        elif node.author is Author.ENVIRONMENT and turn and node.message.role == "tool":
            said = _SAID.match(node.message.text)
            if said is not None and node.message.name == "evaluate":
                latest = max(latest, node.started - started, 0.0)
                found.append(Reading(turn, latest, float(said["score"])))
    return found


def _budget(
    clusters: Sequence[Sequence[_Attempt]],
    at: float,
    place: Callable[[Reading], float],
    end: Callable[[_Attempt], float],
) -> Budget:
    best: list[list[float]] = []
    last: list[list[float]] = []
    for cluster in clusters:
        known = [[r.score for r in each.readings[: bisect_right(each.readings, at, key=place)]] for each in cluster]
        best.append([max(scores, default=0.0) for scores in known])
        last.append([scores[-1] if scores else 0.0 for scores in known])
    everyone = [each for cluster in clusters for each in cluster]
    over, left = mean(best, within=(0.0, 1.0)), mean(last, within=(0.0, 1.0))
    assert over is not None and left is not None
    return Budget(at=at, best=over, last=left, ended=sum(end(each) <= at for each in everyone) / len(everyone))
