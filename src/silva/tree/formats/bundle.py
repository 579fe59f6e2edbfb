"""A bundle: what travels between a file format and a lake. Whole records, no loose ends.

    file ─▶ read(format, …) ─▶ Bundle … ─▶ the lake's append          lake ─▶ Bundle … ─▶ write(format, …) ─▶ file

One bundle belongs to one run. Formats with a line for every trajectory give a bundle for every line, so the same task
and the same shared nodes come again and again: ids are derived, equal ids are equal records, `merged` keeps one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from silva.tree.message import Record
from silva.tree.node import Node, digest, node_id
from silva.tree.run import Run
from silva.tree.schema import AnyRecord
from silva.tree.supervision import Supervision
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory, slot, trajectory_id, tree_id


class Bundle(Record, frozen=True, kw_only=True):
    """Records of one run. `blobs` maps content hash to bytes of images that came with the file.

    A run of nothing but its id (`Run(id=…)`) stands for a run described elsewhere, or not at all.
    """

    run: Run
    tasks: tuple[Task, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
    nodes: tuple[Node, ...] = ()
    supervisions: tuple[Supervision, ...] = ()
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])

    def records(self) -> Iterator[AnyRecord]:
        """Every record, parents before children; the run first unless it is only named."""
        if described(self.run):
            yield self.run
        yield from self.tasks
        yield from self.nodes
        yield from self.trajectories
        yield from self.supervisions

    def walk(self, trajectory: Trajectory) -> tuple[Node, ...]:
        """The trajectory's nodes, root first.

        Raises:
            KeyError: a node of the walk is not in this bundle.
        """
        return walk({node.id: node for node in self.nodes}, trajectory.leaf_id)


def walk(nodes: dict[str, Node], leaf_id: str | None) -> tuple[Node, ...]:
    """The nodes from the root down to `leaf_id`; none for no leaf.

    Raises:
        KeyError: a node is missing, or the parents go round in a circle (named by the node's id).
    """
    path: list[Node] = []
    while leaf_id is not None:
        if len(path) > len(nodes):
            raise KeyError(leaf_id)
        path.append(nodes[leaf_id])
        leaf_id = path[-1].parent_id
    return tuple(reversed(path))


def described(run: Run) -> bool:
    """Whether the run says more than its id."""
    return run != Run(id=run.id)


def merged(bundles: Iterable[Bundle]) -> list[Bundle]:
    """One bundle for each run, in order of first appearance, every record once (the first of equal ids stays)."""
    runs: dict[str, Run] = {}
    kept: dict[str, tuple[dict[str, Task], dict[str, Trajectory], dict[str, Node], dict[str, Supervision]]] = {}
    blobs: dict[str, dict[str, bytes]] = {}
    for bundle in bundles:
        run = bundle.run
        if run.id not in runs or not described(runs[run.id]):
            runs[run.id] = run
        tasks, trajectories, nodes, supervisions = kept.setdefault(run.id, ({}, {}, {}, {}))
        for task in bundle.tasks:
            tasks.setdefault(task.id, task)
        for trajectory in bundle.trajectories:
            trajectories.setdefault(trajectory.id, trajectory)
        for node in bundle.nodes:
            nodes.setdefault(node.id, node)
        for supervision in bundle.supervisions:
            supervisions.setdefault(supervision.id, supervision)
        blobs.setdefault(run.id, {}).update(bundle.blobs)
    return [
        Bundle(
            run=run,
            tasks=tuple(kept[name][0].values()),
            trajectories=tuple(kept[name][1].values()),
            nodes=tuple(sorted(kept[name][2].values(), key=lambda node: node.depth)),
            supervisions=tuple(kept[name][3].values()),
            blobs=blobs[name],
        )
        for name, run in runs.items()
    ]


def attempted(bundle: Bundle, attempt: int) -> Bundle:
    """The bundle as another attempt at the same places of its groups: ids of sampled nodes and of trajectories are
    derived anew. Supervisions are not taken along."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    nodes: list[Node] = []
    for node in sorted(bundle.nodes, key=lambda node: node.depth):
        place = slot(int(node.slot.partition(".")[0]), attempt) if node.slot else ""
        parent = None if node.parent_id is None else ids.get(node.parent_id, node.parent_id)
        own = node_id(node.tree_id, parent, node.author, node.message, node.tools, place)
        if own in taken:
            own = digest(own, node.id)
        taken.add(own)
        ids[node.id] = own
        nodes.append(msgspec.structs.replace(node, id=own, parent_id=parent, slot=place))
    trajectories = tuple(
        msgspec.structs.replace(
            t,
            id=trajectory_id(t.run_id, t.task_id, t.index, attempt),
            attempt=attempt,
            leaf_id=None if t.leaf_id is None else ids.get(t.leaf_id, t.leaf_id),
        )
        for t in bundle.trajectories
    )
    return msgspec.structs.replace(bundle, nodes=tuple(nodes), trajectories=trajectories, supervisions=())


def renamed(bundle: Bundle, run_id: str) -> Bundle:
    """The bundle as if it had been grown in the run `run_id`: every id that hashes the run is derived anew."""
    if bundle.run.id == run_id:
        return bundle
    trees = {t.tree_id: tree_id(run_id, t.task_id) for t in bundle.trajectories}
    ids: dict[str, str] = {}
    taken: set[str] = set()
    nodes: list[Node] = []
    for node in sorted(bundle.nodes, key=lambda node: node.depth):
        tree = trees.setdefault(node.tree_id, digest("tree", run_id, node.tree_id))
        # A parent outside the bundle (an edited file) keeps its name: the tree will refuse it, not we.
        parent = None if node.parent_id is None else ids.get(node.parent_id, node.parent_id)
        own = node_id(tree, parent, node.author, node.message, node.tools, node.slot)
        if own in taken:
            own = digest(own, node.id)
        taken.add(own)
        ids[node.id] = own
        nodes.append(msgspec.structs.replace(node, id=own, run_id=run_id, tree_id=tree, parent_id=parent))
    trajectories = tuple(
        msgspec.structs.replace(
            t,
            id=_trajectory_id(t, run_id),
            run_id=run_id,
            tree_id=trees[t.tree_id],
            leaf_id=None if t.leaf_id is None else ids.get(t.leaf_id, t.leaf_id),
        )
        for t in bundle.trajectories
    )
    supervisions = tuple(
        msgspec.structs.replace(
            s, id=digest("supervision", run_id, s.id), run_id=run_id, node_id=ids.get(s.node_id, s.node_id)
        )
        for s in bundle.supervisions
    )
    return msgspec.structs.replace(
        bundle,
        run=msgspec.structs.replace(bundle.run, id=run_id),
        nodes=tuple(nodes),
        trajectories=trajectories,
        supervisions=supervisions,
    )


def _trajectory_id(trajectory: Trajectory, run_id: str) -> str:
    place = (trajectory.task_id, trajectory.index, trajectory.attempt)
    if trajectory.id == trajectory_id(trajectory.run_id, *place):
        return trajectory_id(run_id, *place)
    return digest("trajectory", run_id, trajectory.id)
