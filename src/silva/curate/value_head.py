"""Fitting a value head: from steps and what became of them to weights, by ridge regression.

    runs ─▶ steps: those that a verifier's completions scored, else actions of scored trajectories ─▶ features ─▶ ridge
              └▶ every fifth task is held out ─▶ how often two steps of one tree are put in the right order ─▶ told

Ridge regression is exact, needs no seed and takes seconds. What it can know is what words tell of a step; the held-out
order says how much that is, and stands in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silva.errors import UsageError
from silva.lake import Lake
from silva.models.embedding import open_embedder
from silva.rollout.branching.verifiers.value import ValueHead, features, step_words, task_words
from silva.rollout.guided_nodes import not_taken, takes_turn
from silva.rollout.judged import answer_of, verdict_of
from silva.tree import Author, Node, Tree, digest

REFERENCE = "completions"
PENALTY = 1.0
MOST = 20_000
"""Steps a head is fitted on: the latest that were read are left out beyond."""
_HELD_OUT = 5
_LEAST = 20


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its task's words and its own, what it came to, and the task and the tree it is of."""

    task: str
    words: str
    value: float
    task_id: str
    tree_id: str


def steps_of(lake: Lake, run: str) -> list[Step]:
    """The steps of a run and their values: a candidate's mean over completions where it has one, else the score of the
    trajectory that took it.

    Raises:
        UsageError: the lake has no such run.
    """
    if lake.run(run) is None:
        raise UsageError(f"lake {lake.location}: has no run {run}; see `silva trees list`")
    instructions = {each.id: each.instruction for each in lake.tasks(run_id=run)}
    found: dict[str, Step] = {}
    for each in lake.trajectories(run_id=run):
        if each.superseded or each.leaf_id is None:
            continue
        tree = lake.tree(each.tree_id)
        walk = tree.walk(each.leaf_id)
        task = task_words(instructions.get(each.task_id, ""), [node.message for node in walk])
        refused = not_taken(walk)
        for node in walk:
            if not takes_turn(node) or node.author is not Author.POLICY or node.id in refused:
                continue
            for one in (node, *(sibling for sibling in tree.children(str(node.parent_id)) if sibling.id != node.id)):
                value = _completed(one) if one.author is Author.POLICY else None
                value = each.outcome.score if value is None and one is node else value
                if value is not None:
                    found.setdefault(one.id, Step(task, _words(tree, one), value, each.task_id, each.tree_id))
    return list(found.values())


def fit(steps: Sequence[Step], embedder: str = "hashed", name: str = "", penalty: float = PENALTY) -> ValueHead:
    """Fit a head; its measured order is by one that did not see the held-out tasks.

    Raises:
        UsageError: there are too few steps, or all of them came to the same.
    """
    steps = steps[:MOST]
    if len(steps) < _LEAST or len({each.value for each in steps}) < 2:
        raise UsageError(
            f"value-head: {len(steps)} steps with {len({each.value for each in steps})} different values "
            f"are too few; it takes {_LEAST} steps that came to different ends"
        )
    held = np.array([int(digest(each.task_id)[:8], 16) % _HELD_OUT == 0 for each in steps])
    given = features(embedder, [each.task for each in steps], [each.words for each in steps])
    target = np.array([each.value for each in steps], np.float64)
    told: dict[str, Any] = {"name": name, "steps": len(steps), "tasks": len({each.task_id for each in steps})}
    if 0 < held.sum() < len(steps):
        weights, bias = _ridge(given[~held], target[~held], penalty)
        told |= _order(given[held] @ weights + bias, [each for each, out in zip(steps, held, strict=True) if out])
    weights, bias = _ridge(given, target, penalty)
    return ValueHead(
        weights=weights.astype(np.float32).tobytes(),
        bias=bias,
        embedder=embedder,
        digest=open_embedder(embedder).digest,
        told=told,
    )


def _ridge(
    given: NDArray[np.float32], target: NDArray[np.float64], penalty: float
) -> tuple[NDArray[np.float64], float]:
    """Weights and bias; by rows or by columns, whichever are fewer."""
    middle = given.mean(axis=0, dtype=np.float64)
    rows, mean = given - middle, float(target.mean())
    if len(rows) < rows.shape[1]:
        weights = rows.T @ np.linalg.solve(rows @ rows.T + penalty * np.eye(len(rows)), target - mean)
    else:
        weights = np.linalg.solve(rows.T @ rows + penalty * np.eye(rows.shape[1]), rows.T @ (target - mean))
    return weights, mean - float(middle @ weights)


def _order(values: NDArray[np.float64], steps: Sequence[Step]) -> dict[str, Any]:
    """How often two steps of one tree that came to different ends are put in the right order."""
    of_tree: dict[str, list[int]] = {}
    for place, each in enumerate(steps):
        of_tree.setdefault(each.tree_id, []).append(place)
    right: list[bool] = []
    for places in of_tree.values():
        for one, two in combinations(places[:200], 2):
            if steps[one].value != steps[two].value:
                right.append(bool((values[one] > values[two]) == (steps[one].value > steps[two].value)))
    order = float(np.mean(right)) if right else None
    return {"held_out_tasks": len({each.task_id for each in steps}), "twos": len(right), "order": order}


def _completed(node: Node) -> float | None:
    verdict = verdict_of(node)
    if verdict is None:
        return None
    return verdict.score if verdict.by == REFERENCE else verdict.others.get(REFERENCE)


def _words(tree: Tree, action: Node) -> str:
    return step_words(action.message, [node.message for node in answer_of(tree, action)])
