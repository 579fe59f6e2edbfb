"""The decisions at which words are tried: places of a stored walk just before an action whose result can be rewritten.

trajectory ─▶ turns with an answer and an action behind it ─▶ one of them ─▶ Shoots (the action again, then new turns)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from silva.lake import Lake
from silva.rollout.branching.shoots import Shoot
from silva.rollout.guided_nodes import answers, not_taken, takes_turn
from silva.rollout.risks import risks_of
from silva.rollout.snapshots.known import Known
from silva.rollout.snapshots.point import indexes, point_at
from silva.tree import Node, Trajectory


def attackable(walk: Sequence[Node]) -> list[Node]:
    """The actions of a walk that were taken and answered before another action, so that words in their answer can sway
    it; those before a risky action first, then as they come."""
    untaken = not_taken(walk)
    actions = [node for node in walk if takes_turn(node)]
    places = {node.id: place for place, node in enumerate(walk)}
    found: list[tuple[bool, int, Node]] = []
    for number, (action, following) in enumerate(pairwise(actions)):
        between = walk[places[action.id] + 1 : places[following.id]]
        if action.id not in untaken and any(answers(node) for node in between):
            found.append((not risks_of(following.message), number, action))
    return [node for _, _, node in sorted(found, key=lambda each: each[:2])]


def shoots_at(
    lake: Lake, trajectories: Sequence[Trajectory], *, depth: int, width: int, number: int
) -> tuple[Shoot, ...]:
    """`width` new paths for each trajectory, at its next decision.

    Args:
        lake: where the trees are.
        trajectories: of the run that is branched from.
        depth: the turn whose result carries the attack; 0 for each decision in turn.
        width: paths at once.
        number: of the round, from 1; it chooses the decision where `depth` does not.
    """
    known = Known(lake)
    known.read(each.tree_id for each in trajectories)
    shoots: list[Shoot] = []
    for each in sorted(trajectories, key=lambda each: (each.task_id, each.index)):
        walk = known.walk(each)
        if depth:
            taken = [node for node in walk if takes_turn(node)]
            chosen = taken[depth - 1] if len(taken) > depth else None
        else:
            found = attackable(walk)
            chosen = found[(number - 1) % len(found)] if found else None
        if chosen is None:
            continue
        tree = known.tree(each.tree_id)
        point = point_at(known, tree, chosen, instead=True)
        used = [one.index for one in shoots if one.tree_id == tree.id]
        first = max(used, default=indexes(known, tree, 1)[0] - 1) + 1
        shoots += [
            Shoot(tree_id=tree.id, node_id=point.node.id, index=index, action=chosen.message, reasons=("attack",))
            for index in range(first, first + width)
        ]
    return tuple(shoots)
