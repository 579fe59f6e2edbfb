"""Which node each worker goes to. Pure.

nodes (id, address, CPUs) ─▶ places: floor(CPUs / cpus) each ─▶ one worker a node, or round and round the nodes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from silva.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class RayNode:
    """A living node. `cpus` is how many CPUs Ray may give away on it in all."""

    id: str
    address: str
    cpus: float


def places(nodes: Sequence[RayNode], cpus: float) -> dict[str, int]:
    """How many workers of `cpus` CPUs each node has room for, by node id, nodes without room left out.

    Raises:
        UsageError: no node has room for one.
    """
    found = {node.id: int((node.cpus + 1e-9) / cpus) for node in nodes}
    found = {node: room for node, room in found.items() if room}
    if not found:
        largest = max((node.cpus for node in nodes), default=0.0)
        raise UsageError(
            f"no node of the Ray cluster has {cpus:g} CPUs for a worker (the largest of {len(nodes)} has {largest:g}): "
            "lower ray.cpus, or start a node with more"
        )
    return found


def placed(nodes: Sequence[RayNode], cpus: float, workers: int | None, most: int) -> list[str]:
    """The node id of every worker: one on each node with room, or `workers` in turn over the nodes; at most `most`.

    Raises:
        UsageError: there is no room for that many.
    """
    room = places(nodes, cpus)
    if workers is None:
        return list(room)[:most]
    fit = sum(room.values())
    if workers > fit:
        raise UsageError(
            f"ray.workers={workers}: the cluster has room for {fit} of {cpus:g} CPUs each; "
            "lower ray.workers or ray.cpus"
        )
    chosen: list[str] = []
    while len(chosen) < min(workers, most):
        for node in room:
            if room[node] and len(chosen) < min(workers, most):
                room[node] -= 1
                chosen.append(node)
    return chosen
