"""From a data set to training samples: its trajectories read from their lakes, as often and as heavily as it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from silva.errors import UsageError
from silva.lake import Lake
from silva.train.data.dataset import DataSet, Entry
from silva.train.data.entries import counts
from silva.train.lake_samples import collect
from silva.train.sample import Sample
from silva.train.samples import DEFAULT
from silva.train.stretch import Reading
from silva.tree import Trajectory


def load_samples(dataset: DataSet, reading: Reading = DEFAULT, *, dropped: list[str] | None = None) -> list[Sample]:
    """The samples of a data set, entry by entry, copies one after another, weights multiplied.

    Args:
        dataset: what to read; its lakes are opened where the entries say.
        reading: what is asked of the walks, as in `silva.train.lake_samples.collect`.
        dropped: takes why, for each trajectory that cannot be used; None refuses the first of them.

    Raises:
        UsageError: a trajectory is not in its lake, or counts no more: it failed, or a later attempt took its place.
        SampleError: one cannot be used, and is to be refused.
        StoreError: a lake cannot be opened.
    """
    found: dict[tuple[str, str], list[Sample]] = {}
    by_lake: dict[str, list[Entry]] = {}
    for entry in dataset.entries:
        by_lake.setdefault(entry.lake, []).append(entry)
    for location, entries in by_lake.items():
        wanted = {entry.trajectory_id for entry in entries}
        with Lake.open(location, mode="read") as lake:
            stored = [t for run in sorted({e.run_id for e in entries}) for t in lake.trajectories(run_id=run)]
            chosen = [trajectory for trajectory in stored if trajectory.id in wanted]
            _still_there(wanted, chosen, location)
            read = collect(lake, chosen, reading, inexact="refuse" if dropped is None else "skip")
            if dropped is not None:
                dropped += read.inexact
            for sample in read.samples:
                found.setdefault((location, sample.trajectory_id), []).append(sample)
    samples: list[Sample] = []
    for entry in dataset.entries:
        for sample in found.get((entry.lake, entry.trajectory_id), []) * entry.copies:
            weights = (sample.weights * np.float32(entry.weight)).astype(np.float32)
            samples.append(sample if entry.weight == 1.0 else replace(sample, weights=weights))
    return samples


def _still_there(wanted: set[str], chosen: list[Trajectory], location: str) -> None:
    """See that every trajectory of a set is in its lake and still counts: a set is read whole or not at all."""
    if missing := wanted - {trajectory.id for trajectory in chosen}:
        raise UsageError(f"data set: trajectory {min(missing)[:12]} is not in lake {location}; make the set anew")
    if gone := next((trajectory for trajectory in chosen if not counts(trajectory)), None):
        raise UsageError(
            f"data set: trajectory {gone.id[:12]} ({gone.task_id}) in lake {location} failed, or a later attempt took "
            "its place; make the set anew"
        )
