"""A step shared over processes: who computes which samples, and what they found put together again.

    samples ─▶ units (a sample, or a pair) ─▶ in the order of their ids ─▶ cut into parts of like cost ─▶ one a process

Units that begin alike are neighbours in that order, so what they have in common is mostly computed by one process, once
(`silva.train.engines.prefixes`). The cut is the one whose dearest part is cheapest; a unit costs the ids that are read
of it and not shared with its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.errors import UsageError
from silva.train.algorithms.totals import loss_positions
from silva.train.engines.engine import StepResult
from silva.train.engines.prefixes import SHORTEST, common, in_order
from silva.train.sample import Ids, Sample


def share(samples: Sequence[Sample], parts: int, pairs: bool = False) -> list[list[Sample]]:
    """Each process's samples, in the order in which they were given. Where there are as many units with loss as
    processes, none goes without.

    Args:
        samples: of the step; with `pairs`, chosen, rejected, chosen, rejected, …
        parts: how many processes.
        pairs: pairs are not cut.

    Raises:
        BatchError: position 0 carries loss, or a weight is wrong.
    """
    wide = 2 if pairs else 1
    units = [list(samples[at : at + wide]) for at in range(0, len(samples), wide)]
    units = [unit for unit in units if pairs or len(loss_positions(unit[0]))]
    if not units:
        return [[] for _ in range(parts)]
    order = in_order([unit[0].ids for unit in units])
    costs: list[int] = []
    last: Ids | None = None
    for number in order:
        alike = 0 if last is None else common(last, units[number][0].ids)
        read = sum(map(_read, units[number]))
        costs.append(max(1, read - (alike if alike >= SHORTEST else 0)))
        last = units[number][0].ids
    found: list[list[Sample]] = []
    start = 0
    for stop in cuts(costs, parts):
        found.append([sample for number in sorted(order[start:stop]) for sample in units[number]])
        start = stop
    return found


def cuts(costs: Sequence[int], parts: int) -> list[int]:
    """Where a row of costs is cut into parts so that the dearest is cheapest: each part's end, ascending; parts beyond
    the number of costs are empty."""
    low, high = max(costs), sum(costs)
    while low < high:
        bound = (low + high) // 2
        if len(_filled(costs, bound)) <= parts:
            high = bound
        else:
            low = bound + 1
    ends = _filled(costs, low)
    while len(ends) < min(parts, len(costs)):  # a smaller bound needs too many parts, this one leaves some without
        starts = [0, *ends[:-1]]
        widest = max(range(len(ends)), key=lambda at: ends[at] - starts[at])
        ends.insert(widest, (starts[widest] + ends[widest]) // 2)
    return ends + [len(costs)] * (parts - len(ends))


def together(results: Sequence[StepResult]) -> StepResult:
    """The step's result from each process's; summed in the order of ranks, so that all get the same number."""
    metrics: dict[str, float] = {}
    for result in results:
        for name, part in result.metrics.items():
            metrics[name] = metrics.get(name, 0.0) + part
    return StepResult(
        loss=sum(result.loss for result in results),
        metrics=metrics,
        samples=sum(result.samples for result in results),
        tokens=sum(result.tokens for result in results),
        loss_tokens=sum(result.loss_tokens for result in results),
        seconds=max(result.seconds for result in results),
    )


def check_enough(groups: Sequence[Sequence[Sample]], batch: int, processes: int, pairs: bool) -> None:
    """Check that a step of `batch` groups has work for every process.

    Raises:
        UsageError: it has not.
    """
    wide = 2 if pairs else 1
    sizes = sorted(len(group) // wide for group in groups)
    whole, rest = divmod(batch, len(sizes))
    fewest = whole * sum(sizes) + sum(sizes[:rest])
    if processes > fewest:
        what = "pairs" if pairs else "samples"
        raise UsageError(
            f"scale: {processes} processes, but a step of batch {batch} may have no more than {fewest} {what}: "
            "take fewer processes or a larger batch"
        )


def _filled(costs: Sequence[int], bound: int) -> list[int]:
    ends: list[int] = []
    filled = 0
    for at, cost in enumerate(costs):
        if filled and filled + cost > bound:
            ends.append(at)
            filled = 0
        filled += cost
    return [*ends, len(costs)]


def _read(sample: Sample) -> int:
    at = loss_positions(sample)
    return int(at[-1]) if len(at) else 0
