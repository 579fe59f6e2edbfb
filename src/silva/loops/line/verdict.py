"""Which of two versions is better, task by task.

Both play the same tasks with the same seeds; each task gives the difference of its two success rates, and the interval
is over those: what makes a task hard is in both. An attempt that failed for a reason of its own (the agent, the budget,
a conversation too long) counts as no success: a version that breaks must not look good. What was lost to a server or a
host was played again before (`silva.loops.line.lost`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from silva.report.interval import Interval, mean
from silva.report.summary import counted
from silva.tree import Record, Trajectory


class Verdict(Record, frozen=True, kw_only=True):
    """`right` against `left` over `tasks` tasks: success rates and the gain with its 95 % interval; how many tasks went
    better and worse."""

    left: str
    right: str
    tasks: int
    left_rate: float
    right_rate: float
    gain: Interval | None
    better: int
    worse: int

    def proven_better(self, least: float = 0.0) -> bool:
        """Whether the whole interval lies above `least`."""
        return self.gain is not None and self.gain.low is not None and self.gain.low > least

    @property
    def proven_worse(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.gain is not None and self.gain.high is not None and self.gain.high < 0

    def __str__(self) -> str:
        if not self.tasks:
            return f"{self.right} against {self.left}: not measured"
        if self.gain is None or self.gain.low is None or self.gain.high is None:
            return f"{self.right} against {self.left}: {self.tasks} tasks are too few to say"
        return (
            f"{self.right} {100 * self.right_rate:.1f} % against {self.left} {100 * self.left_rate:.1f} %: "
            f"{100 * self.gain.value:+.1f} points [{100 * self.gain.low:+.1f}, {100 * self.gain.high:+.1f}] "
            f"over {self.tasks} tasks"
        )


def judge(left: Iterable[Trajectory], right: Iterable[Trajectory], left_name: str, right_name: str) -> Verdict:
    """Compare two versions on the tasks both played."""
    return versus(rates(left), rates(right), left_name, right_name)


def versus(one: Mapping[str, float], other: Mapping[str, float], left: str, right: str) -> Verdict:
    """Compare two versions by what each reached, from 0 to 1, at the tasks that both have.

    Args:
        one: by task, of `left`.
        other: by task, of `right`.
        left: the name of the first version.
        right: that of the second.
    """
    both = sorted(one.keys() & other.keys())
    return Verdict(
        left=left,
        right=right,
        tasks=len(both),
        left_rate=fmean(one[task] for task in both) if both else 0.0,
        right_rate=fmean(other[task] for task in both) if both else 0.0,
        gain=gain([other[task] - one[task] for task in both]),
        better=sum(other[task] > one[task] for task in both),
        worse=sum(other[task] < one[task] for task in both),
    )


def gain(differences: Sequence[float]) -> Interval | None:
    """The mean difference with its 95 % interval, see `silva.report.interval.mean`. None without tasks."""
    return mean([[difference] for difference in differences], within=(-1.0, 1.0))


def rates(attempts: Iterable[Trajectory]) -> dict[str, float]:
    """Share of successes by task, over the last attempt at each place."""
    found: dict[str, list[bool]] = {}
    for attempt in counted(attempts):
        found.setdefault(attempt.task_id, []).append(bool(attempt.outcome.success))
    return {task: sum(each) / len(each) for task, each in found.items()}
