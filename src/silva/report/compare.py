"""Two runs side by side, paired by task.

A difference between runs on the same tasks is far better known than either rate, because what makes a task hard is in
both. So each task gives one number (its mean in one run less its mean in the other) and the interval is over those;
where all tasks agree it tells how far so many tasks bind the others, never that nothing can differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import msgspec

from silva.report.interval import Interval, mean
from silva.report.summary import TaskSummary, counted, summarise
from silva.tree import Json, Record, Trajectory


class Difference(Record, frozen=True, kw_only=True):
    """Right less left over the tasks both runs judged. `better` and `worse` count tasks by the right run's success."""

    env: str
    tasks: int
    left: float
    right: float
    success: Interval | None
    score: Interval | None
    better: int
    worse: int


class Comparison(Record, frozen=True, kw_only=True):
    """Run `right` against run `left`: overall, and per environment. Tasks only one run judged are counted, not used."""

    left: str
    right: str
    overall: Difference
    envs: tuple[Difference, ...]
    only_left: int
    only_right: int

    def to_json(self) -> Json:
        """Plain JSON, as `--json` prints it."""
        return msgspec.to_builtins(self)


def compare(left: Iterable[Trajectory], right: Iterable[Trajectory], left_id: str, right_id: str) -> Comparison:
    """Compare two runs on the tasks both judged."""
    one, other = _judged(left), _judged(right)
    both = sorted(one.keys() & other.keys())
    envs = sorted({one[task].env for task in both})
    return Comparison(
        left=left_id,
        right=right_id,
        overall=_difference("", [(one[task], other[task]) for task in both]),
        envs=tuple(_difference(env, [(one[t], other[t]) for t in both if one[t].env == env]) for env in envs),
        only_left=len(one.keys() - other.keys()),
        only_right=len(other.keys() - one.keys()),
    )


def _judged(trajectories: Iterable[Trajectory]) -> dict[tuple[str, str], TaskSummary]:
    return {(t.env, t.task_id): t for t in summarise(counted(trajectories)).by_task if t.judged}


def _difference(env: str, pairs: list[tuple[TaskSummary, TaskSummary]]) -> Difference:
    rates = [(a.rate or 0.0, b.rate or 0.0) for a, b in pairs]
    return Difference(
        env=env,
        tasks=len(pairs),
        left=fmean(a for a, _ in rates) if rates else 0.0,
        right=fmean(b for _, b in rates) if rates else 0.0,
        success=mean([[b - a] for a, b in rates], within=(-1.0, 1.0)),
        score=mean(
            [[b.score - a.score] for a, b in pairs if a.score is not None and b.score is not None],
            within=(-1.0, 1.0),
        ),
        better=sum(b > a for a, b in rates),
        worse=sum(b < a for a, b in rates),
    )
