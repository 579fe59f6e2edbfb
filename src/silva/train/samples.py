"""From walks of a tree to samples. Nothing is tokenised: what the model saw and drew is on the nodes.

    one walk ─────────────────▶ samples(walk, trajectory) ─┐
    a tree, trajectory after trajectory ─▶ SampleReader ───┴─▶ stretches ─▶ one Sample each

A trajectory gives one sample, and one more for every break: where a template rewrote earlier turns, where a summary
took their place. A trajectory with several walks (sub-agents, what was said before a summary; its attribute `leaves`)
gives the samples of its main walk first, then what the others add. Every id the policy drew carries loss in exactly one
of them, if supervision keeps its node.

The reader keeps the stretch at every branch it passed, so that a prefix that many trajectories share is read once; what
a trajectory costs is its own nodes and the copying of its arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from silva.train.sample import Sample, SampleError
from silva.train.stretch import EMPTY, Reading, Stretch, grow
from silva.tree import Node, Supervision, Trajectory, Tree, masked_nodes

DEFAULT = Reading()


def samples(
    walk: Sequence[Node],
    trajectory: Trajectory | None = None,
    supervisions: Iterable[Supervision] = (),
    reading: Reading = DEFAULT,
) -> list[Sample]:
    """The samples of one walk, in the order of what happened.

    Args:
        walk: nodes, root first.
        trajectory: says the run, task, place in the group and reward; without it they stay empty and NaN.
        supervisions: judgements on the nodes, added to `reading.masked`.
        reading: what is asked of the walk.

    Raises:
        InexactTokensError: a turn of the policy has no ids, not those before it, or no log-probabilities where they
            are required.
        SampleError: a log-probability or the reward is not a number; an id is none; images have no placeholders.
    """
    reading = replace(reading, masked=reading.masked | masked_nodes(supervisions))
    return _samples([grow(EMPTY, walk, reading)], trajectory, reading, set())


class SampleReader:
    """Reads the trajectories of one tree.

    Args:
        tree: the tree.
        supervisions: judgements on its nodes, added to `reading.masked`.
        reading: what is asked of the walks.
    """

    def __init__(self, tree: Tree, supervisions: Iterable[Supervision] = (), reading: Reading = DEFAULT) -> None:
        self._tree = tree
        self._reading = replace(reading, masked=reading.masked | masked_nodes(supervisions))
        self._known: dict[str, Stretch] = {}
        self._forks = {node.id for node in tree.branches}
        self._carried: set[str] = set()

    def samples(self, trajectory: Trajectory) -> list[Sample]:
        """The samples of a trajectory; none where it broke before its first message.

        Raises:
            InexactTokensError: as `samples`.
            SampleError: as `samples`, or the tree does not hold the trajectory's nodes.
        """
        if trajectory.leaf_id is None:
            return []
        leaves = [trajectory.leaf_id, *trajectory.attributes.get("leaves", ())]
        stretches = [self._stretch(trajectory, leaf) for leaf in dict.fromkeys(leaves)]
        carried = self._carried if self._reading.once == "tree" else set[str]()
        return _samples(stretches, trajectory, self._reading, carried)

    def _stretch(self, trajectory: Trajectory, leaf_id: str) -> Stretch:
        pending: list[Node] = []
        current: str | None = leaf_id
        while current is not None and current not in self._known:
            if current not in self._tree:
                raise SampleError(
                    f"trajectory {trajectory.id[:12]}: its node {current[:12]} is not in tree {self._tree.id[:12]}; "
                    "run `silva lake doctor`"
                )
            node = self._tree.node(current)
            pending.append(node)
            current = node.parent_id
        stretch = EMPTY if current is None else self._known[current]
        run: list[Node] = []
        for node in reversed(pending):
            run.append(node)
            if node.id in self._forks:
                self._known[node.id] = stretch = grow(stretch, run, self._reading)
                run = []
        return grow(stretch, run, self._reading) if run else stretch


def _samples(
    walks: Sequence[Stretch], trajectory: Trajectory | None, reading: Reading, carried: set[str]
) -> list[Sample]:
    reward = _reward(trajectory, reading)
    apart = len(walks) > 1 or reading.once == "tree"
    found: list[Sample] = []
    for walk in walks:
        for stretch in walk.all():
            again = [action for action in stretch.actions if action.node_id in carried] if apart else []
            if len(again) == len(stretch.actions):
                continue  # nothing was drawn here, or an earlier sample carries all of it
            mask = stretch.mask.copy()
            for action in again:
                mask[action.start : action.stop] = False
            found.append(_sample(stretch, mask, trajectory, reward, len(found)))
            if apart:
                carried.update(action.node_id for action in stretch.actions)
    return found


def _sample(stretch: Stretch, mask: np.ndarray, trajectory: Trajectory | None, reward: float, segment: int) -> Sample:
    n = len(stretch.ids)
    sample = Sample(
        ids=stretch.ids.copy(),
        mask=mask,
        drawn=stretch.drawn.copy(),
        logprobs=stretch.logprobs.copy(),
        advantages=np.zeros(n, np.float32),
        weights=np.ones(n, np.float32),
        actions=stretch.actions,
        images=stretch.images,
        versions=stretch.versions,
        segment=segment,
        reward=reward,
        attributes={"messages": stretch.messages},
    )
    if trajectory is None:
        return sample
    return replace(
        sample,
        run_id=trajectory.run_id,
        task_id=trajectory.task_id,
        trajectory_id=trajectory.id,
        env=trajectory.env,
        index=trajectory.index,
        attributes={
            "messages": stretch.messages,
            "attempt": trajectory.attempt,
            "status": str(trajectory.outcome.status),
        },
    )


def _reward(trajectory: Trajectory | None, reading: Reading) -> float:
    if trajectory is None:
        return math.nan
    value = trajectory.outcome.score if reading.reward == "score" else trajectory.reward
    if value is None:
        return math.nan
    if not math.isfinite(value):
        raise SampleError(
            f"trajectory {trajectory.id[:12]} ({trajectory.task_id}, try {trajectory.index}): its {reading.reward} is "
            f"{value:g}; leave it out or mend its checker"
        )
    return value
