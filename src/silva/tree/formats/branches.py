"""The branches a rollout left off its main walk: which trajectory they belong to, and the order graphs are written in.

    bundle ─▶ branches_of: trajectory id ─▶ nodes of its slot off every walk          walk + branches ─▶ ordered

A format that holds message graphs takes them with their rollout; they are then no loose ends of the bundle.
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.tree.formats.bundle import Bundle
from silva.tree.node import Node


def branches_of(bundle: Bundle) -> dict[str, list[Node]]:
    """The nodes off every walk, by the trajectory whose rollout sampled them, parents first."""
    known = {node.id: node for node in bundle.nodes}
    walks: dict[str, set[str]] = {}
    owners: dict[tuple[str, str], str] = {}
    for trajectory in bundle.trajectories:
        owners.setdefault((trajectory.tree_id, trajectory.slot), trajectory.id)
        own = walks.setdefault(trajectory.id, set())
        leaf = trajectory.leaf_id
        while leaf is not None and leaf in known and leaf not in own:
            own.add(leaf)
            leaf = known[leaf].parent_id
    walked = set[str]().union(*walks.values())
    found: dict[str, list[Node]] = {}
    for node in sorted(bundle.nodes, key=lambda node: node.depth):
        owner = owners.get((node.tree_id, node.slot))
        if node.id in walked or owner is None:
            continue
        if node.parent_id is None or node.parent_id in walks[owner]:
            walks[owner].add(node.id)
            found.setdefault(owner, []).append(node)
    return found


def ordered(path: Sequence[Node], branches: Sequence[Node]) -> list[Node]:
    """All of them, parents first; the end of the walk as late as may be, for readers take the last leaf as the main."""
    if not path:
        return list(branches)
    below = {path[-1].id}
    first: list[Node] = list(path[:-1])
    later: list[Node] = []
    for node in branches:
        if node.parent_id in below:
            below.add(node.id)
            later.append(node)
        else:
            first.append(node)
    return [*sorted(first, key=lambda node: node.depth), path[-1], *later]
