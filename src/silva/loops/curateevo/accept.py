"""Whether a revision is kept: a paired test that it is no worse, and cost where neither is shown to be better.

    by task and seed: revision - present ─▶ mean, low (one-sided, tasks and seeds) ─┬▶ low <= -margin: rolled back
                                                                                    ├▶ low > 0: kept
                                                                                    └▶ else: kept if it costs less,
                                                                                       and costs count

Trained twice on the same data, policies differ by points, so that "higher J" alone decides little: J's cost term moves
by less than a point where data is halved. The variance between seeds is part of the interval therefore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean, stdev

from silva.tree import Record

Rates = Mapping[str, float]


class Compared(Record, frozen=True, kw_only=True):
    """A revision against the present curation: the mean gain in P and its lower bound, and what was decided."""

    gain: float
    low: float
    kept: bool
    why: str


def promising(sifted: Sequence[float], present: float, tries: int) -> list[int]:
    """Which revisions meet all seeds, by their place: that of the highest J with the first seed, and those behind it
    that are better than the present curation with it, `tries` in all."""
    best, *others = sorted(range(len(sifted)), key=lambda place: -sifted[place])
    return [best, *(place for place in others if sifted[place] > present)][:tries]


def compare(
    present: Sequence[Rates],
    revision: Sequence[Rates],
    turns: tuple[int, int],
    margin: float,
    alpha: float,
    costs: bool = True,
) -> Compared:
    """Decide.

    Args:
        present: what the present curation's policies reach at each task, by seed.
        revision: what the revision's reach, in the same order of seeds.
        turns: that the present one trains on, and the revision.
        margin: how much worse a revision may be.
        alpha: of the one-sided test.
        costs: whether turns count (J's `weight` is above 0).
    """
    differences = [
        {task: other[task] - one[task] for task in sorted(one.keys() & other.keys())}
        for one, other in zip(present, revision, strict=True)
    ]
    tasks = sorted(set[str]().union(*differences))
    if not tasks:
        return Compared(gain=0.0, low=-1.0, kept=False, why="no task was measured with both")
    by_task = [fmean(each[task] for each in differences if task in each) for task in tasks]
    gain = fmean(by_task)
    low = gain - NormalDist().inv_cdf(1 - alpha) * _error(by_task, differences)
    said = f"{100 * gain:+.1f} points, at least {100 * low:+.1f}, {turns[1]:,} turns instead of {turns[0]:,}"
    if low > 0:
        return Compared(gain=gain, low=low, kept=True, why=f"better: {said}")
    if low <= -margin:
        return Compared(gain=gain, low=low, kept=False, why=f"not shown to be no worse: {said}")
    if not costs:
        return Compared(gain=gain, low=low, kept=False, why=f"no better, and cost does not count: {said}")
    cheaper = turns[1] < turns[0]
    word = "no worse and cheaper" if cheaper else "no worse, but not cheaper"
    return Compared(gain=gain, low=low, kept=cheaper, why=f"{word}: {said}")


def _error(by_task: Sequence[float], differences: Sequence[Mapping[str, float]]) -> float:
    """The standard error of the mean over tasks and seeds, both drawn."""
    of_tasks = stdev(by_task) ** 2 / len(by_task) if len(by_task) > 1 else 1.0
    means = [fmean(each.values()) for each in differences if each]
    of_seeds = stdev(means) ** 2 / len(means) if len(means) > 1 else 0.0
    return (of_tasks + of_seeds) ** 0.5
