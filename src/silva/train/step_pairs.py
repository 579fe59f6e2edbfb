"""Sibling steps as samples: the exact ids up to one action of a trajectory, with loss on that action alone.

(trajectory, node) better, (trajectory, node) worse ─▶ samples cut behind each action ─▶ Preference
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from silva.lake import Lake
from silva.train.algorithms.errors import PairError
from silva.train.algorithms.preference import Preference
from silva.train.lake_samples import collect
from silva.train.sample import Sample, SampleError
from silva.train.stretch import Reading

Step = tuple[str, str]
"""A trajectory's id, and the id of the node of one of its actions."""


def step_sample(lake: Lake, trajectory_id: str, node_id: str) -> Sample:
    """The sample of a trajectory up to an action, which alone carries loss.

    Raises:
        SampleError: its ids are not known, the action is masked, or it is not one of the policy's.
    """
    trajectory = lake.trajectory(trajectory_id)
    for sample in collect(lake, [trajectory], Reading(logprobs="optional")).samples:
        for action in sample.actions:
            if action.node_id == node_id and sample.mask[action.start : action.stop].all():
                mask = sample.mask.copy()
                mask[: action.start] = False
                mask[action.stop :] = False
                return _cut(replace(sample, mask=mask), action.stop)
    raise SampleError(f"trajectory {trajectory_id[:12]}: action {node_id[:12]} has no ids that carry loss")


def preferences(lake: Lake, steps: Sequence[tuple[Step, Step]]) -> tuple[list[Preference], list[str]]:
    """The preferences of better and worse steps, and why each of the others is none.

    Raises:
        StoreError: the lake is damaged.
    """
    found: list[Preference] = []
    left: list[str] = []
    for better, worse in steps:
        try:
            found.append(Preference(chosen=step_sample(lake, *better), rejected=step_sample(lake, *worse)))
        except (SampleError, PairError) as error:
            left.append(str(error))
    return found, left


def _cut(sample: Sample, stop: int) -> Sample:
    return replace(
        sample,
        ids=sample.ids[:stop],
        mask=sample.mask[:stop],
        drawn=sample.drawn[:stop],
        logprobs=sample.logprobs[:stop],
        advantages=sample.advantages[:stop],
        weights=sample.weights[:stop],
        actions=tuple(action for action in sample.actions if action.stop <= stop),
        images=tuple(image for image in sample.images if image.position < stop),
    )
