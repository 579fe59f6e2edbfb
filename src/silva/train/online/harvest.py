"""From the trajectories of a group to a group for the buffer, or the reason why there is nothing to learn from it.

trajectories ─▶ samples, exact (silva.train.samples) ─▶ algorithm.score ─▶ Group: bytes, rewards, versions
                       └ a member that cannot be used or read, rewards all alike, nobody to compare with ─▶ Barren
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from silva.errors import UsageError
from silva.lake import Lake
from silva.train.algorithms.advantages import Dropped
from silva.train.algorithms.errors import BatchError, GroupError
from silva.train.buffer.group import Group
from silva.train.lake_samples import collect
from silva.train.online.limits import Readable, anything
from silva.train.sample import Sample, SampleError
from silva.train.stretch import Reading
from silva.tree import Trajectory

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm


@dataclass(frozen=True, kw_only=True, slots=True)
class Barren:
    """A group nothing can be learnt from. `reason` is one line."""

    reason: str


def harvest(
    name: str,
    lake: Lake,
    trajectories: Sequence[Trajectory],
    algorithm: Algorithm,
    number: Callable[[str], int],
    readable: Readable = anything,
) -> Group | Barren:
    """Read, score and wrap a group.

    Args:
        name: the group's id.
        lake: that holds the trajectories.
        trajectories: all attempts at all places of the group.
        algorithm: says whether groups are scored, and scores them.
        number: of a policy version's name.
        readable: refuses what cannot be trained on.

    Raises:
        UsageError: a turn does not say which policy version drew it.
        ForeignVersion: `number` does not know it.
        StoreError: the lake cannot be read.
    """
    reading = Reading(logprobs="required" if "logprobs" in algorithm.needs else "optional")
    try:
        samples = collect(lake, trajectories, reading).samples
        if not samples:
            failed = next((each.outcome.failure for each in trajectories if each.outcome.failure), None)
            return Barren(reason="every attempt failed" + (f": {failed.message}" if failed else ""))
        readable(samples)
        scored = _scored(samples, algorithm)
    except (SampleError, GroupError, BatchError) as error:
        return Barren(reason=str(error))
    if isinstance(scored, Dropped):
        return Barren(reason=scored.reason.replace("_", " "))
    versions = {version for sample in scored for version in sample.versions}
    if not versions or "" in versions:
        raise UsageError(
            f"{scored[0].name}: its turns do not say which policy version drew them, so nothing can be said of its "
            "staleness; serve the policy by a server that tells its version"
        )
    return Group(
        id=name,
        task_id=_task(scored[0].task_id),
        versions=tuple(sorted({number(version) for version in versions})),
        rewards=tuple(None if math.isnan(sample.reward) else sample.reward for sample in scored),
        samples=tuple(sample.to_bytes() for sample in scored),
    )


def _scored(samples: Sequence[Sample], algorithm: Algorithm) -> list[Sample] | Dropped:
    if "group" in algorithm.needs:
        return algorithm.score(samples)  # pyright: ignore[reportAttributeAccessIssue]
    if not any(sample.mask.any() for sample in samples):
        return Dropped(reason="no_loss", run_id=samples[0].run_id, task_id=samples[0].task_id)
    return list(samples)


def _task(task_id: str) -> str:
    """The task's id where it can stand in the buffer; it is told, not needed."""
    return task_id if len(task_id) <= 200 and task_id.isascii() and task_id.isprintable() and " " not in task_id else ""
