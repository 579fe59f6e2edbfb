"""Sibling steps as pairs: two actions behind one node, of which one is known to be better, and by whom.

    judged trajectories of a tree ─▶ by parent node: mean value of what begins with each action ─▶ StepPair
    searches among candidates ─▶ by the verifier's scores: the best against the worst, or against all ─▶ StepPair
    a person's corrections    ─▶ what the person took against what the policy was about to ──────────▶ StepPair

A pair names nodes, whose ids of tokens are those that were sampled: a trainer cuts its samples there
(`silva.train.step_pairs`) and nothing is written anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import msgspec

from silva.errors import UsageError
from silva.lake import Lake
from silva.lake.durable import refusals, write_whole
from silva.rollout.guided_nodes import INSTEAD_OF, not_taken, takes_turn
from silva.rollout.judged import Search, searches
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


@dataclass(frozen=True, slots=True)
class Paired:
    """The pairs of searches. `searches`: how many there were; `left`: why so many of them gave none."""

    pairs: list[StepPair] = field(default_factory=list[StepPair])
    searches: int = 0
    left: Counter[str] = field(default_factory=Counter[str])

    def __add__(self, other: Paired) -> Paired:
        return Paired(self.pairs + other.pairs, self.searches + other.searches, self.left + other.left)


def candidate_pairs(
    tree: Tree, trajectories: Iterable[Trajectory], *, by: str = "", margin: float = 0.0, every: bool = False
) -> Paired:
    """The pairs of the searches along trajectories of one tree: the candidate with the best score against the worst.

    Args:
        tree: all of its nodes.
        trajectories: of the tree.
        by: whose scores; of the verifier that chose when left out, else of another that was asked (`also`).
        margin: a pair's scores lie further apart than this.
        every: the best against each of the others that is so much worse, and not against the worst alone.
    """
    found = Paired()
    among = {each.chosen.id: each for each in searches(tree)}
    for each in sorted(trajectories, key=lambda each: (each.run_id, each.index, each.id)):
        if each.leaf_id is None or each.leaf_id not in tree:
            continue
        walk = tree.walk(each.leaf_id)
        refused = not_taken(walk)
        for node in walk:
            search = among.pop(node.id, None)  # a step that several trajectories share is one
            if search is not None and node.id not in refused:
                found += _paired(search, each, by, margin, every)
    return found


def correction_pairs(tree: Tree, trajectories: Iterable[Trajectory]) -> Paired:
    """The pairs of a person's corrections along trajectories of one tree: the action that a person took in the policy's
    place against the one that the policy was about to take. Nobody measured by how much it is better: the gap is 1.

    Args:
        tree: all of its nodes.
        trajectories: of the tree.
    """
    found = Paired()
    seen: set[str] = set()
    for each in sorted(trajectories, key=lambda each: (each.run_id, each.index, each.id)):
        for node in tree.walk(each.leaf_id) if each.leaf_id is not None and each.leaf_id in tree else ():
            instead = str(node.attributes.get(INSTEAD_OF, ""))
            if not takes_turn(node) or not instead or instead not in tree or node.id in seen:
                continue
            seen.add(node.id)
            other = tree.node(instead)
            if other.parent_id != node.parent_id or _action(other) == _action(node):
                found += Paired(left=Counter(["what a person took says what the policy said, or stands elsewhere"]))
                continue
            found += Paired([_pair(each, node, other, 1.0, "person")])
    return found


def pairs_of_run(lake: Lake, run: str, pair: Callable[[Tree, list[Trajectory]], Paired]) -> Paired:
    """The pairs of a run, tree by tree; attempts that were tried again are left out.

    Raises:
        UsageError: the lake has no such run.
    """
    if lake.run(run) is None:
        raise UsageError(f"lake {lake.location}: has no run {run}; see `silva trees list`")
    trees: dict[str, list[Trajectory]] = {}
    for each in lake.trajectories(run_id=run):
        if not each.superseded and each.leaf_id:
            trees.setdefault(each.tree_id, []).append(each)
    return sum((pair(tree, trees[tree.id]) for tree in lake.trees(sorted(trees))), Paired())


def _paired(search: Search, of: Trajectory, by: str, margin: float, every: bool) -> Paired:
    scored = sorted(search.scores(by), key=lambda one: -one[1])
    if search.searched.equal:
        return Paired(searches=1, left=Counter(["all candidates said the same"]))
    if len(scored) < 2:
        return Paired(
            searches=1, left=Counter([f"fewer than two candidates have a score by {by or search.searched.by}"])
        )
    best, most = scored[0]
    if not by and any(node.id == search.chosen.id and score == most for node, score in scored):
        best = search.chosen
    worse = [(node, most - score) for node, score in scored if most - score > margin]
    if not worse:
        return Paired(searches=1, left=Counter(["the scores do not part"]))
    told = worse if every else worse[-1:]
    return Paired([_pair(of, best, node, gap, by or search.searched.by) for node, gap in told], 1)


def _pair(of: Trajectory, better: Node, worse: Node, gap: float, by: str) -> StepPair:
    """A pair of siblings of which one trajectory took the better."""
    return StepPair(
        tree_id=of.tree_id,
        task_id=of.task_id,
        parent_id=str(better.parent_id),
        chosen_id=better.id,
        rejected_id=worse.id,
        chosen_trajectory=of.id,
        rejected_trajectory=of.id,
        gap=gap,
        by=by,
    )


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
