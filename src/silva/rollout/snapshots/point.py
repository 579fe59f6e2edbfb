"""A place in a stored tree from which branches can grow: the end of a whole turn, with all that is needed to get there.

NODE, or TRAJECTORY@TURN ─▶ node ─▶ whole turn (its action and what was answered; or, instead: before it) ─▶ Point
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from silva.errors import UsageError
from silva.lake import Lake, field
from silva.rollout.guided_nodes import answers, takes_turn
from silva.rollout.slots import slots
from silva.rollout.snapshots.known import Known
from silva.tree import Node, Run, Task, Trajectory, Tree, digest, roles_of, tree_id


@dataclass(frozen=True, slots=True)
class Point:
    """Where branches begin. `walk`: the nodes from the root to there. `env`: the environment as the run names it.
    `instead_of`: the action that the branches take the place of, if they do."""

    env: str
    task: Task
    seed: int
    walk: tuple[Node, ...]
    run: Run | None = None
    instead_of: Node | None = None

    @property
    def node(self) -> Node:
        """The last node of the walk."""
        return self.walk[-1]

    @property
    def turns(self) -> int:
        """Actions taken on the way."""
        return sum(takes_turn(node) for node in self.walk)


def find_node(lake: Lake, text: str) -> Node:
    """The node of that id, or the only one whose id begins so; `TRAJECTORY@TURN` is the trajectory's action of that
    turn, counted from 1, or from its end where negative (-1: the last).

    Raises:
        UsageError: there is none, or there are several.
    """
    if "@" in text:
        return _turn(lake, *text.split("@", 1))
    if not text:
        raise UsageError(f"lake {lake.location}: give the id of a node, or its beginning (silva trees show)")
    found = lake.nodes(where=(field("id") >= text) & (field("id") < text + chr(0x10FFFF)), limit=2)
    if not found:
        raise UsageError(f"lake {lake.location}: has no node {text}; `silva trees show TRAJECTORY` shows the ids")
    if len(found) > 1 and found[0].id != found[1].id:
        raise UsageError(f"lake {lake.location}: {text} begins the ids of several nodes; give more of it")
    return found[0]


def _turn(lake: Lake, name: str, place: str) -> Node:
    trajectory = lake.trajectory(name)
    actions = [node for node in lake.walk(trajectory) if takes_turn(node)]
    try:
        number = int(place)
        if number == 0 or not -len(actions) <= number <= len(actions):
            raise ValueError
    except ValueError as error:
        raise UsageError(
            f"{name}@{place}: trajectory {trajectory.id[:12]} has turns 1 to {len(actions)}, or -1 to -{len(actions)}"
        ) from error
    return actions[number - 1 if number > 0 else number]


def point_at(
    lake: Lake | Known, tree: Tree, node: Node, *, instead: bool = False, whole: bool = True, env: str | None = None
) -> Point:
    """The point at a node: after its whole turn, or (`instead`) before the last action at or above it.

    Args:
        lake: where the task, the run and the trajectories are, or what is known of it.
        tree: the node's tree.
        node: a node of it.
        instead: whether branches take the place of the action.
        whole: whether the node's turn is completed first; else the point is just after the node.
        env: the environment, where it is registered by another name than the run says.

    Raises:
        UsageError: no action stands there, the turn was answered in several ways, or the lake lacks the task.
    """
    walk = list(tree.walk(node.id))
    replaced: Node | None = None
    if instead:
        while walk and not takes_turn(walk[-1]):
            walk.pop()
        if not walk:
            raise UsageError(f"node {node.id[:12]}: no action stands at or above it, so there is none to replace")
        replaced = walk.pop()
        while walk and not takes_turn(walk[-1]) and not answers(walk[-1]):
            walk.pop()  # what a person said before the action goes with it
    elif whole:
        _complete(tree, walk)
    if not walk:
        raise UsageError(f"node {node.id[:12]}: nothing was said before it, so there is nothing to begin from")
    return _placed(Known.of(lake), tree, tuple(walk), replaced, env)


def _complete(tree: Tree, walk: list[Node]) -> None:
    while True:
        found = [child for child in tree.children(walk[-1].id) if answers(child)]
        if not found:
            return
        own = [child for child in found if child.slot == walk[-1].slot] if len(found) > 1 else found
        if len(own) != 1:
            raise UsageError(
                f"node {walk[-1].id[:12]}: was answered in {len(found)} ways; name the answer to go on from, "
                f"one of {', '.join(child.id[:12] for child in found)}"
            )
        walk += own


def _placed(known: Known, tree: Tree, walk: tuple[Node, ...], replaced: Node | None, env: str | None) -> Point:
    run = known.run(walk[0].run_id)
    trajectory = _through(known.trajectories(tree.id), walk[-1])
    if trajectory is None:
        return _unended(known.lake, tree, walk, replaced, env, run)
    if roles_of(trajectory):
        raise UsageError(
            f"trajectory {trajectory.id[:12]}: several agents acted in it, and what one of them did cannot be taken up "
            "without the others: play the task again with another seed"
        )
    # Asked of the run that the tree was grown in: branches of branches are of its task, too.
    task = known.task(walk[0].run_id, trajectory)
    if task is None:
        raise UsageError(f"tree {tree.id[:12]}: the lake does not hold its task {trajectory.task_id}")
    name = env or named(trajectory.env, run)
    return Point(env=name, task=task, seed=trajectory.seed, walk=walk, run=run, instead_of=replaced)


def _unended(
    lake: Lake, tree: Tree, walk: tuple[Node, ...], replaced: Node | None, env: str | None, run: Run | None
) -> Point:
    """A point of a tree none of whose trajectories has ended: its task is the one whose tree it is."""
    known = [] if run is None else lake.tasks(run_id=run.id)
    task = next((each for each in known if run is not None and tree_id(run.id, each.id) == tree.id), None)
    if task is None or run is None:
        raise UsageError(f"tree {tree.id[:12]}: the lake does not hold its run and task, so it cannot be played again")
    name = env or named(task.env, run)
    seed = slots(run.id, [(name, task)], 1, run.seed)[0].seed
    return Point(env=name, task=task, seed=seed, walk=walk, run=run, instead_of=replaced)


def _through(ended: list[Trajectory], node: Node) -> Trajectory | None:
    """The trajectory that grew the node, or any of its tree: the seed is the tree's."""
    return min(
        ended, key=lambda each: (each.slot != node.slot, each.run_id != node.run_id, each.index, each.id), default=None
    )


def named(env: str, run: Run | None) -> str:
    """The environment of a task as its run names it."""
    if run is None or env in run.envs or len(run.envs) != 1:
        return env
    return run.envs[0]


def indexes(lake: Lake | Known, tree: Tree, count: int) -> list[int]:
    """Places in the tree's group that no run has used: what branches are numbered with, so that no id meets another."""
    used = [each.index for each in Known.of(lake).trajectories(tree.id)]
    used += [int(head) for node in tree if (head := node.slot.split(".")[0]).isdigit()]
    first = max(used, default=-1) + 1
    return list(range(first, first + count))


def run_name(given: str | None, command: str, *parts: str) -> str:
    """The name of a run of branches: the one given, or one made of what is asked for and the clock. Two that begin in
    one second are two."""
    return given or f"{command}-{time.strftime('%Y%m%d-%H%M%S')}-{digest(*parts, str(time.time_ns()))[:6]}"
