"""Sibling steps as samples: the exact ids up to one action of a trajectory, with loss on that action alone.

(trajectory, node) better, (trajectory, node) worse ─▶ samples cut behind each action ─▶ Preference

A step is an action of a trajectory, a person's in the policy's place among them, or one that stands beside it and was
not taken (a candidate, or what a person corrected): its ids are what was seen there and what was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from silva.lake import Lake
from silva.train.algorithms.errors import PairError
from silva.train.algorithms.preference import Preference
from silva.train.lake_samples import Given, Refused, each_with_reader, read, runs_of, usable
from silva.train.sample import Sample, SampleError
from silva.train.samples import SampleReader
from silva.train.stretch import Reading
from silva.tree import Author, masked_nodes

Step = tuple[str, str]
"""A trajectory's id, and the id of the node of one of its actions."""


def step_sample(lake: Lake, trajectory_id: str, node_id: str) -> Sample:
    """The sample of a trajectory up to an action, which alone carries loss.

    Raises:
        SampleError: its ids are not known, the action is masked, or it is not one of the policy's.
        UsageError: there is no such trajectory.
    """
    step = trajectory_id, node_id
    found = step_samples(lake, [step])[step]
    if isinstance(found, Refused):
        raise SampleError(found.why)
    return found


def step_samples(lake: Lake, steps: Iterable[Step], *, masking: bool = True) -> dict[Step, Sample | Refused]:
    """The sample of each step, or why there is none. Every tree is read once, however many of its steps are asked for.

    Args:
        lake: where they are.
        steps: which.
        masking: refuse actions that supervision masks: they are not worth imitating, and as good as any to unlearn.

    Raises:
        UsageError: a trajectory is not in the lake.
        StoreError: the lake is damaged.
    """
    wanted: dict[str, list[str]] = {}
    for trajectory_id, node_id in dict.fromkeys(steps):
        wanted.setdefault(trajectory_id, []).append(node_id)
    # Each has been judged for itself, so a trajectory that failed later on is as good as any.
    ended = [one for each in wanted for one in usable([lake.trajectory(each)], failed=True)[1]]
    ended.sort(key=lambda each: each.tree_id)
    judged = (one for run_id in runs_of(ended) for one in lake.supervisions(run_id=run_id)) if masking else ()
    reading = Reading(logprobs="optional", masked=masked_nodes(judged))
    found: dict[Step, Sample | Refused] = {}
    for each, tree, reader in each_with_reader(lake, ended, reading):
        along, walk = read(reader, each), {node.id for node in tree.walk(str(each.leaf_id))}
        for node_id in wanted[each.id]:
            node, given = tree.node(node_id) if node_id in tree else None, along
            if node is not None and node.parent_id in walk and (node_id not in walk or node.author is Author.PERSON):
                by = (
                    SampleReader(tree, (), replace(reading, takeovers=True)) if node.author is Author.PERSON else reader
                )
                given = read(by, msgspec.structs.replace(each, leaf_id=node_id, attributes={}))
            found[each.id, node_id] = _step(given, each.id, node_id)
    return {
        (trajectory_id, node_id): found.get((trajectory_id, node_id)) or _step([], trajectory_id, node_id)
        for trajectory_id, nodes in wanted.items()
        for node_id in nodes
    }


def preferences(lake: Lake, steps: Sequence[tuple[Step, Step]]) -> tuple[list[Preference], list[str]]:
    """The preferences of better and worse steps, and why each of the others is none.

    Raises:
        UsageError, StoreError: as `step_samples`.
    """
    better_known = step_samples(lake, (better for better, _ in steps))
    worse_known = step_samples(lake, (worse for _, worse in steps), masking=False)
    found: list[Preference] = []
    left: list[str] = []
    for better, worse in steps:
        chosen, rejected = better_known[better], worse_known[worse]
        if isinstance(chosen, Refused) or isinstance(rejected, Refused):
            left.append(next(each.why for each in (chosen, rejected) if isinstance(each, Refused)))
            continue
        try:
            found.append(Preference(chosen=chosen, rejected=rejected))
        except PairError as error:
            left.append(str(error))
    return found, left


def _step(given: Given, trajectory_id: str, node_id: str) -> Sample | Refused:
    where = f"trajectory {trajectory_id[:12]}"
    if isinstance(given, Refused):
        return Refused(f"{where}: {given.why}")
    for sample in given:
        for action in sample.actions:
            if action.node_id == node_id and sample.mask[action.start : action.stop].all():
                mask = sample.mask.copy()
                mask[: action.start] = False
                mask[action.stop :] = False
                return _cut(replace(sample, mask=mask), action.stop)
    return Refused(f"{where}: action {node_id[:12]} has no ids that carry loss")


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
