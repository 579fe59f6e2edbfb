"""Trees of a lake, each read once: what many places of a run are asked about, one after the other.

    lake ─ nodes and trajectories of many trees, in a query each ─▶ Known ─▶ tree, trajectories, walk; run, task
    runs of branches that have grown since ─ add ─▶ the same trees, with what is new

A query of a lake costs about the same for one tree as for a hundred, and a point alone needs three. What is written
after a tree was read is not seen until the run that wrote it is added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from silva.lake import Lake, field
from silva.tree import Node, Run, Task, Trajectory, Tree, TreeError

TOGETHER = 200
"""Trees that are read at once."""


class Known:
    """See the module.

    Args:
        lake: what is read.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._trees: dict[str, Tree] = {}
        self._ended: dict[str, list[Trajectory]] = {}
        self._runs: dict[str, Run | None] = {}
        self._tasks: dict[tuple[str, str], Task | None] = {}

    @classmethod
    def of(cls, lake: Lake | Known) -> Known:
        """What is known already, or a beginning with nothing."""
        return lake if isinstance(lake, Known) else cls(lake)

    @property
    def location(self) -> object:
        """The lake's."""
        return self.lake.location

    def read(self, tree_ids: Iterable[str]) -> None:
        """Read those of these trees that have not been read."""
        wanted = [each for each in dict.fromkeys(tree_ids) if each not in self._ended]
        for first in range(0, len(wanted), TOGETHER):
            part = wanted[first : first + TOGETHER]
            nodes: defaultdict[str, list[Node]] = defaultdict(list)
            for node in self.lake.nodes(where=field("tree_id").is_in(part)):
                nodes[node.tree_id].append(node)
            self._ended |= {each: [] for each in part}
            for each in self.lake.trajectories(where=field("tree_id").is_in(part)):
                self._ended[each.tree_id].append(each)
            for name, of_tree in nodes.items():
                self._keep(name, of_tree)

    def tree(self, tree_id: str) -> Tree:
        """The tree of that id.

        Raises:
            UsageError, StoreError: as of `Lake.tree`.
        """
        self.read([tree_id])
        return self._trees[tree_id] if tree_id in self._trees else self.lake.tree(tree_id)

    def trajectories(self, tree_id: str) -> list[Trajectory]:
        """The trajectories of a tree."""
        self.read([tree_id])
        return self._ended[tree_id]

    def walk(self, trajectory: Trajectory) -> tuple[Node, ...]:
        """The trajectory's nodes, root first.

        Raises:
            StoreError: as of `Lake.walk`.
        """
        self.read([trajectory.tree_id])
        tree = self._trees.get(trajectory.tree_id)
        if tree is None or trajectory.leaf_id is None or trajectory.leaf_id not in tree:
            return self.lake.walk(trajectory)
        return tuple(tree.walk(trajectory.leaf_id))

    def run(self, run_id: str) -> Run | None:
        """The run of that name, or None."""
        if run_id not in self._runs:
            self._runs[run_id] = self.lake.run(run_id)
        return self._runs[run_id]

    def task(self, run_id: str, trajectory: Trajectory) -> Task | None:
        """The task of a trajectory, as the run had it that its tree was grown in; None where the lake lacks it."""
        key = (run_id, trajectory.task_id)
        if key not in self._tasks:
            of_tree = self.lake.tasks(run_id=run_id, where=field("id") == trajectory.task_id)
            self._tasks[key] = next(iter(of_tree), None) or self.lake.task(trajectory)
        return self._tasks[key]

    def add(self, run_ids: Iterable[str]) -> None:
        """Take in what runs have written into trees that were read before."""
        for run in run_ids:
            nodes: defaultdict[str, list[Node]] = defaultdict(list)
            for node in self.lake.nodes(run_id=run):
                nodes[node.tree_id].append(node)
            for name in nodes.keys() & self._trees.keys():
                self._keep(name, [*self._trees[name], *nodes[name]])
            for each in self.lake.trajectories(run_id=run):
                ended = self._ended.get(each.tree_id)
                if ended is not None:
                    ended[:] = [*(one for one in ended if one.id != each.id), each]

    def _keep(self, name: str, nodes: Sequence[Node]) -> None:
        try:
            self._trees[name] = Tree({node.id: node for node in nodes}.values())
        except TreeError:
            self._trees.pop(name, None)  # the lake says what is missing, when the tree is asked for
