"""Where a trainer's samples come from, and in what order.

    files, runs of a lake, or a data set
                  └─▶ samples ─┬ sft, opd: a sample each ──────────────────────────────┐
                               ├ dpo: pairs, from rewards or as they stand in the file ─┼▶ groups ─▶ Source
                               └ grpo: by task, scored; groups all alike are left out ──┘

What is held out shares no task and no first question with what is trained on.

A source hands out groups and says how many it has handed out; sought to that position it goes on with the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np

from silva.errors import UsageError
from silva.lake import Lake
from silva.train.algorithms.advantages import Dropped
from silva.train.algorithms.preference import Preference, laid_out
from silva.train.config import DataConfig
from silva.train.data.dataset import DataSet, by_trajectory, dataset_file, read_dataset
from silva.train.data.entries import read_entries
from silva.train.data.leak import Leak, leaks, leaks_of_samples
from silva.train.data.load import load_samples
from silva.train.lake_samples import collect
from silva.train.pairs import pairs
from silva.train.sample import Sample, SampleError
from silva.train.sample_file import read_samples
from silva.train.stretch import Reading
from silva.tree.role import in_roles

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

Group = list[Sample]
"""What is trained on together: a sample, a pair (chosen, rejected), or all scored samples of a task."""


class Source(Protocol):
    """Hands out groups that are ready to be trained on."""

    position: int
    """How many groups were handed out so far."""

    def take(self, count: int) -> list[Group]:
        """The next groups; fewer, or none, where the source ends."""
        ...

    def seek(self, position: int) -> None:
        """Go on after that many groups."""
        ...


class Epochs:
    """A fixed set of groups, over and over; each epoch in an order of its own, drawn from the seed.

    Args:
        groups: at least one.
        seed: of the orders.
        shuffle: False keeps the order that was given.
    """

    def __init__(self, groups: Sequence[Group], seed: int = 0, shuffle: bool = True) -> None:
        if not groups:
            raise ValueError("epochs of no groups")
        self.position = 0
        self._groups, self._seed, self._shuffle = list(groups), seed, shuffle
        self._epoch, self._order = -1, np.arange(len(groups))

    def take(self, count: int) -> list[Group]:
        """The next groups, always as many as asked for."""
        found = [self._at(self.position + place) for place in range(count)]
        self.position += count
        return found

    def seek(self, position: int) -> None:
        """Go on after that many groups."""
        self.position = position

    def _at(self, position: int) -> Group:
        epoch, place = divmod(position, len(self._groups))
        if self._shuffle and epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(len(self._groups))
        return self._groups[int(self._order[place])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """Groups of one set of data. `alike` counts groups left out because their rewards are, `left_out` samples below
    the least reward or without loss, `dropped` says why each of the others cannot be trained on; `parents` name the
    data."""

    groups: list[Group]
    alike: int = 0
    left_out: int = 0
    parents: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def prepare(data: DataConfig, algorithm: Algorithm) -> Prepared:
    """Read what a run is trained on.

    Raises:
        SampleError: a file or trajectory cannot be used.
        GroupError, PairError: a group or pair cannot be trained on.
        UsageError: nothing is left.
    """
    dropped: tuple[str, ...] = ()
    if data.dataset is not None:
        samples, parents, dropped = _of_dataset(data.dataset, data, algorithm)
    elif data.runs and data.lake is not None:
        samples, dropped = _of_lake(data.lake, data.runs, _reading(algorithm), data.role)
        parents = tuple(f"run:{run}" for run in data.runs)
    else:
        samples = [sample for file in data.files for sample in read_samples(file)]
        parents = tuple(f"file:{file.name}" for file in data.files)
    if dropped and not samples:
        raise SampleError(f"data: none of {len(dropped)} trajectories can be trained on; the first: {dropped[0]}")
    return replace(_prepared(samples, data, algorithm), parents=parents, dropped=dropped)


def held_out(data: DataConfig, algorithm: Algorithm, trained: Prepared) -> list[Sample]:
    """The samples that are measured and not trained on, laid out as the algorithm takes them; perhaps none.

    Args:
        data: of the run.
        algorithm: of the run.
        trained: what `prepare` gave.

    Raises:
        SampleError, GroupError, PairError: as `prepare`.
        UsageError: as `prepare`, or it shares something with what is trained on.
    """
    if not data.held_out and data.held_out_dataset is None:
        return []
    ours = [sample for group in trained.groups for sample in group]
    here = "runs" if data.runs else "files"
    if data.dataset is not None:
        here = f"{dataset_file(data.dataset)} (dataset)"
    samples = [sample for file in data.held_out for sample in read_samples(file)]
    found = leaks_of_samples(ours, samples, (here, "held_out"))
    if data.held_out_dataset is not None:
        there = dataset_file(data.held_out_dataset)
        sets = (here, f"{there} (held_out_dataset)")
        named = _entries(data)
        if named is not None:
            found += leaks({sets[0]: named, sets[1]: read_dataset(there)})
        _apart(data, found)
        measured = _of_dataset(data.held_out_dataset, data, algorithm)[0]
        if named is None:
            found += leaks_of_samples(ours, measured, sets)
        samples += measured
    _apart(data, found)
    return [sample for group in _prepared(samples, data, algorithm).groups for sample in group] if samples else []


def _prepared(samples: Sequence[Sample], data: DataConfig, algorithm: Algorithm) -> Prepared:
    total, alike = len(samples), 0
    if data.least_reward is not None:
        samples = [sample for sample in samples if sample.reward >= data.least_reward]
    if "pairs" in algorithm.needs:
        groups = _pairs(samples, data)
        left = total - len(samples)
        if not groups:
            raise UsageError(
                f"data: {total} samples ({left} below the least reward) hold no pair for {algorithm.name}: it takes "
                f"two tries of one task with rewards more than {data.margin:g} apart that part at an action with loss; "
                "add tries with --group"
            )
    elif "group" in algorithm.needs:
        groups, alike = _scored(samples, algorithm)
        left = total - len(samples)
    else:
        groups = [[sample] for sample in samples if sample.mask.any()]
        left = total - len(groups)
    if not groups:
        raise UsageError(
            f"data: {total} samples gave nothing that {algorithm.name} can train on "
            f"({alike} groups with rewards all alike, {left} samples without loss or below the least reward)"
        )
    return Prepared(groups=groups, alike=alike, left_out=left)


def _reading(algorithm: Algorithm) -> Reading:
    return Reading(logprobs="required" if "logprobs" in algorithm.needs else "optional")


def _of_dataset(
    path: Path, data: DataConfig, algorithm: Algorithm
) -> tuple[list[Sample], tuple[str, ...], tuple[str, ...]]:
    """The samples of a data set, what names the data, and what dropped out of it."""
    file = dataset_file(path)
    dataset = read_dataset(file)
    entries = dataset.entries
    lakes = sorted({entry.lake for entry in entries})
    if data.lake is not None and len(lakes) > 1:
        raise UsageError(f"data set {file}: its trajectories lie in {', '.join(lakes)}: leave data.lake out")
    if data.lake is not None:
        entries = tuple(msgspec.structs.replace(entry, lake=data.lake) for entry in entries)
    twice = next((entry for entry in by_trajectory(entries) if entry.copies > 1), None)
    if twice is not None and {"group", "pairs"} & set(algorithm.needs):
        raise UsageError(
            f"data set {file}: trajectory {twice.trajectory_id[:12]} stands {twice.copies} times in it, and "
            f"{algorithm.name} compares trajectories with each other: name one that was not upsampled"
        )
    dropped: list[str] = []
    samples = load_samples(msgspec.structs.replace(dataset, entries=entries), _reading(algorithm), dropped=dropped)
    runs = sorted({entry.run_id for entry in entries})
    return samples, (f"dataset:{file.name}", *(f"run:{run}" for run in runs)), tuple(dropped)


def _entries(data: DataConfig) -> DataSet | None:
    """The trajectories that are trained on, with their first questions; None where only files of samples are named."""
    if data.dataset is not None:
        return read_dataset(dataset_file(data.dataset))
    if data.runs and data.lake is not None:
        with Lake.open(data.lake, mode="read") as lake:
            return DataSet(part="train", entries=tuple(read_entries(lake, data.runs)))
    return None


def _apart(data: DataConfig, found: Sequence[Leak]) -> None:
    """See that what is measured is not what is trained on."""
    if found:
        others = ", ".join(f"{leak.kind} {leak.name}" for leak in found[1:3])
        more = f" (so is {others}; {len(found)} in all)" if others else ""
        hint = "; see silva data check" if data.dataset is not None else ""
        raise UsageError(f"data: {found[0]}{more}: what is measured must not be trained on{hint}")


def _of_lake(location: str, runs: Sequence[str], reading: Reading, role: str) -> tuple[list[Sample], tuple[str, ...]]:
    with Lake.open(location, mode="read") as lake:
        chosen = []
        for run in runs:
            found = lake.trajectories(run_id=run)
            if not found:
                raise UsageError(f"lake {lake.location}: run {run} has no trajectories; see `silva trees list`")
            chosen += in_roles(found, role)
            if not chosen:
                raise UsageError(f"lake {lake.location}: in run {run} nobody has the role {role}")
        read = collect(lake, chosen, reading, inexact="skip")
        return list(read.samples), read.inexact


def _pairs(samples: Sequence[Sample], data: DataConfig) -> list[Group]:
    if data.pairs == "alternating":
        if len(samples) % 2:
            raise SampleError(f"data: {len(samples)} samples are no pairs: chosen and rejected must alternate")
        found = [Preference(chosen=samples[at], rejected=samples[at + 1]) for at in range(0, len(samples), 2)]
    else:
        found = [Preference.of(pair) for pair in pairs(samples, data.margin)]
    return [laid_out([pair]) for pair in found]


def _scored(samples: Sequence[Sample], algorithm: Algorithm) -> tuple[list[Group], int]:
    by_task: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by_task.setdefault((sample.run_id, sample.task_id), []).append(sample)
    found: list[Group] = []
    alike = 0
    for group in by_task.values():
        scored = algorithm.score(group)  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(scored, Dropped):
            alike += 1
        else:
            found.append(scored)
    return found, alike
