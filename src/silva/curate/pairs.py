"""Sibling steps as pairs: two actions behind one node, of which one is known to be better, and by whom.

    judged trajectories of a tree ─▶ by parent node: mean value of what begins with each action ─▶ StepPair

A pair names nodes, whose ids of tokens are those that were sampled: a trainer cuts its samples there
(`silva.train.step_pairs`) and nothing is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from silva.errors import UsageError
from silva.lake.durable import refusals, write_whole
from silva.rollout.guided_nodes import not_taken, takes_turn
from silva.tree import Author, Node, Record, Trajectory, Tree


class StepPair(Record, frozen=True, kw_only=True):
    """At `parent_id` the action `chosen_id` is better than `rejected_id`, by `gap` in the mean value of what came of
    each; `by` says who judged. The trajectories are ones that took them."""

    tree_id: str
    task_id: str
    parent_id: str
    chosen_id: str
    rejected_id: str
    chosen_trajectory: str
    rejected_trajectory: str
    gap: float
    by: str

    @property
    def steps(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The chosen step and the rejected one, each as (trajectory, node)."""
        return (self.chosen_trajectory, self.chosen_id), (self.rejected_trajectory, self.rejected_id)


def step_pairs(
    tree: Tree,
    trajectories: Iterable[Trajectory],
    value: Callable[[Trajectory], float | None],
    by: str,
    margin: float = 0.0,
) -> list[StepPair]:
    """The pairs of one tree: at every node behind which the policy took several actions, the best against the worst.

    Args:
        tree: all of its nodes.
        trajectories: of the tree; those without a value are passed over.
        value: what a trajectory was worth.
        by: who judged it.
        margin: a pair's values lie further apart than this.
    """
    taken: dict[str, dict[tuple[str, str], list[tuple[float, Node, Trajectory]]]] = {}
    for each in sorted(trajectories, key=lambda each: (each.run_id, each.index, each.id)):
        worth = value(each)
        if worth is None or each.leaf_id is None or each.leaf_id not in tree:
            continue
        walk = tree.walk(each.leaf_id)
        refused = not_taken(walk)
        for node in walk:
            if takes_turn(node) and node.author is Author.POLICY and node.parent_id and node.id not in refused:
                taken.setdefault(node.parent_id, {}).setdefault(_action(node), []).append((worth, node, each))
    found: list[StepPair] = []
    for parent, actions in taken.items():
        if len(actions) < 2:
            continue
        ranked = sorted(actions.values(), key=lambda paths: -fmean(each[0] for each in paths))
        gap = fmean(each[0] for each in ranked[0]) - fmean(each[0] for each in ranked[-1])
        if gap > margin:
            _, better, of_better = max(ranked[0], key=lambda each: each[0])
            _, worse, of_worse = min(ranked[-1], key=lambda each: each[0])
            found.append(
                StepPair(
                    tree_id=tree.id,
                    task_id=of_better.task_id,
                    parent_id=parent,
                    chosen_id=better.id,
                    rejected_id=worse.id,
                    chosen_trajectory=of_better.id,
                    rejected_trajectory=of_worse.id,
                    gap=gap,
                    by=by,
                )
            )
    return found


def write_pairs(path: Path, pairs: Sequence[StepPair]) -> None:
    """Write pairs, a JSON object a line, whole or not at all.

    Raises:
        StoreError: the disk refused.
    """
    with refusals(f"pairs {path}"):
        write_whole(path, b"".join(msgspec.json.encode(each) + b"\n" for each in pairs))


def read_pairs(path: Path) -> list[StepPair]:
    """Read pairs.

    Raises:
        UsageError: the file cannot be read, or a line is no pair; the message says which.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as fault:
        raise UsageError(f"pairs {path}: cannot be read ({fault.strerror or fault})") from fault
    found: list[StepPair] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=StepPair))
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise UsageError(f"pairs {path} line {number}: is no pair ({fault})") from fault
    return found


def _action(node: Node) -> tuple[str, str]:
    """What an action says and calls, whatever ids its calls have."""
    calls = [(call.name, call.arguments) for call in node.message.tool_calls]
    return node.message.text, repr(calls)
