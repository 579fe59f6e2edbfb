"""Slots: the places to fill. One slot is one task at one index of its group; a run is done when every slot has ended.

Also what a resumed run finds in the lake: which slots have ended, and the turns of those that were cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from silva.rollout.guided_nodes import BACK
from silva.tree import Author, Node, Record, Task, Trajectory, digest, slot, tree_id
from silva.tree.role import attempt_of


class Slot(Record, frozen=True, kw_only=True):
    """One place to fill. `env` is the environment as the run names it; `seed`, shared by the group, resets it."""

    env: str
    task: Task
    index: int
    attempt: int
    seed: int
    tree_id: str

    @property
    def name(self) -> str:
        """What sampled nodes of this attempt carry as `slot`."""
        return slot(self.index, self.attempt)

    def retried(self) -> Slot:
        """The next attempt at the same place."""
        return msgspec.structs.replace(self, attempt=self.attempt + 1)


def slots(run_id: str, tasks: Sequence[tuple[str, Task]], group: int, seed: int) -> list[Slot]:
    """Every slot of a run, task by task."""
    places: list[Slot] = []
    for env, task in tasks:
        drawn = int(digest("environment", str(seed), task.id)[:7], 16)
        tree = tree_id(run_id, task.id)
        places += [Slot(env=env, task=task, index=index, attempt=0, seed=drawn, tree_id=tree) for index in range(group)]
    return places


class Remembered:
    """What the lake already holds of a run.

    `retry` names the failure boundaries whose slots are to be tried again although they have ended.
    """

    def __init__(
        self, trajectories: Iterable[Trajectory] = (), nodes: Iterable[Node] = (), retry: frozenset[str] = frozenset()
    ) -> None:
        self.ended: list[Trajectory] = []
        self._attempts: dict[tuple[str, int], int] = {}
        self._closed: set[tuple[str, int]] = set()
        for trajectory in trajectories:
            place = (trajectory.tree_id, trajectory.index)
            self._attempts[place] = max(self._attempts.get(place, -1), trajectory.attempt)
            failure = trajectory.outcome.failure
            again = trajectory.superseded or (failure is not None and failure.boundary.value in retry)
            if again and not trajectory.superseded:
                trajectory = msgspec.structs.replace(trajectory, superseded=True)
            elif not again:
                self._closed.add(place)
            self.ended.append(trajectory)
        self._left: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
        for trajectory in sorted(self.ended, key=lambda each: each.attempt):
            if BACK in trajectory.attributes:
                self._left[trajectory.tree_id, trajectory.index].append(trajectory)
        left = {(t.tree_id, t.slot) for each in self._left.values() for t in each}
        finished = {(t.tree_id, t.slot) for t in self.ended}
        self.written: dict[str, set[str]] = defaultdict(set)
        self._unfinished: dict[tuple[str, str], list[Node]] = defaultdict(list)
        self._shared: dict[str, dict[str, Node]] = defaultdict(dict)
        self._roles: dict[tuple[str, str], set[str]] = defaultdict(set)
        for node in nodes:
            self.written[node.tree_id].add(node.id)
            if not node.slot or (node.tree_id, node.slot) in left:  # later attempts begin on what was left
                self._shared[node.tree_id][node.id] = node
            elif (node.tree_id, attempt := attempt_of(node.slot)) not in finished:
                self._unfinished[node.tree_id, node.slot].append(node)
                if attempt != node.slot:
                    self._roles[node.tree_id, attempt].add(node.slot)

    def remaining(self, all_slots: Iterable[Slot]) -> list[Slot]:
        """The slots still to fill, each at the attempt it has reached."""
        left: list[Slot] = []
        for place in all_slots:
            key = (place.tree_id, place.index)
            if key not in self._closed:
                left.append(msgspec.structs.replace(place, attempt=self._attempts.get(key, -1) + 1))
        return left

    def walk(self, place: Slot) -> list[Node]:
        """The stored nodes of an attempt that was cut off, from its first message on; empty when it never began."""
        return self._walk(place.tree_id, place.name)

    def roles(self, place: Slot) -> dict[str, list[Node]]:
        """The stored nodes of the other roles of an attempt that was cut off, each from its first message on, by the
        slot they carry."""
        found = self._roles.pop((place.tree_id, place.name), ())
        return {name: self._walk(place.tree_id, name) for name in found}

    def _walk(self, tree_id: str, name: str) -> list[Node]:
        nodes = self._unfinished.pop((tree_id, name), [])
        if not nodes:
            return []
        shared = self._shared[tree_id]
        parent = min(nodes, key=lambda node: node.depth).parent_id
        while parent is not None and parent in shared:
            nodes.append(shared[parent])
            parent = shared[parent].parent_id
        return nodes

    def leave(self, trajectory: Trajectory, nodes: Iterable[Node]) -> None:
        """A person went back: the trajectory has ended, and the next attempt begins on its nodes."""
        self._left[trajectory.tree_id, trajectory.index].append(trajectory)
        self._shared[trajectory.tree_id].update({node.id: node for node in nodes})

    def left(self, place: Slot) -> list[Trajectory]:
        """Earlier attempts at a place that ended because a person went back, in order."""
        return [each for each in self._left.get((place.tree_id, place.index), ()) if each.attempt < place.attempt]

    def walk_to(self, tree_id: str, node_id: str) -> tuple[list[Node], list[Node]]:
        """The nodes from the root to one that an attempt which was left passes through, and the summaries on the way.

        Raises:
            KeyError: it is not known here.
        """
        known = self._shared[tree_id]
        walk = [known[node_id]]
        while (parent := walk[-1].parent_id) is not None:
            walk.append(known[parent])
        passed = {node.id for node in walk}
        sums = [each for each in known.values() if each.author is Author.SUMMARISER and each.parent_id in passed]
        return walk[::-1], sums
