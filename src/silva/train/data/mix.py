"""Sets mixed by ratio: so many trajectories of each, however many each has.

    sets, ratios ─▶ how many of each (largest remainders) ─▶ whole passes over a set, then the first of its own order

A set's order is by digest, so a mixture of twice the size holds the smaller one. A set that has too few gives some of
its trajectories more often.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from silva.errors import UsageError
from silva.train.data.dataset import DataSet, Entry, by_trajectory
from silva.tree import digest


def mix(datasets: Sequence[DataSet], ratios: Sequence[float], size: int | None = None, seed: int = 0) -> DataSet:
    """One set of `size` trajectories (copies counted), so many of each set as the ratios say.

    Args:
        datasets: of one part.
        ratios: above 0, one a set; only their relation counts.
        size: None: the most for which no set must give a trajectory more often than it holds it.
        seed: of the order.

    Raises:
        UsageError: a ratio is not above 0, a set is empty, or the size leaves a set without any.
    """
    for ratio, dataset in zip(ratios, datasets, strict=True):
        if not 0 < ratio < float("inf"):
            raise UsageError(f"mix: the ratio {ratio:g} is not a number above 0")
        if not len(dataset):
            raise UsageError("mix: a data set is empty; leave it out")
    total = sum(ratios)
    if size is None:
        size = int(min(len(each) / (ratio / total) for each, ratio in zip(datasets, ratios, strict=True)) + 1e-9)
    counts = _counts([size * ratio / total for ratio in ratios], size)
    if 0 in counts:
        raise UsageError(f"mix: of {size} trajectories a set would get none; ask for more with --size")
    chosen: list[Entry] = []
    for dataset, count in zip(datasets, counts, strict=True):
        chosen += _taken(dataset, count, seed)
    return DataSet(part=datasets[0].part, entries=by_trajectory(chosen))


def _taken(dataset: DataSet, count: int, seed: int) -> list[Entry]:
    units = [
        (digest("mix", str(seed), entry.trajectory_id, str(copy)), entry)
        for entry in dataset.entries
        for copy in range(entry.copies)
    ]
    units.sort(key=lambda unit: unit[0])
    passes, rest = divmod(count, len(units))
    once = [msgspec.structs.replace(entry, copies=1) for _, entry in units]
    return once * passes + once[:rest]


def _counts(wanted: list[float], size: int) -> list[int]:
    counts = [int(each) for each in wanted]
    order = sorted(range(len(wanted)), key=lambda i: (counts[i] - wanted[i], i))
    for place in order[: size - sum(counts)]:
        counts[place] += 1
    return counts
