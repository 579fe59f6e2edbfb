"""The pairs of a loop in words: what was chosen, what was rejected, by whom and by how much."""

from __future__ import annotations

from silva.curate.pairs import StepPair, read_pairs
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Preferred
from silva.loops.sport.config import SportConfig
from silva.tree import Node

MOST = 1_000
"""Pairs that are told in words."""


def preferred(loop: Loop[SportConfig], most: int = MOST) -> list[Preferred]:
    """The pairs of all rounds so far; of more than `most` every n-th."""
    found = [pair for stage in loop.plan if stage.kind == "pairs" for pair in _of(loop, stage.name)]
    found = found[:: max(1, -(-len(found) // most))]
    if not found:
        return []
    with Lake.open(loop.lake, mode="read") as lake:
        trees = {tree.id: tree for tree in lake.trees(dict.fromkeys(each.tree_id for each in found))}
    return [
        Preferred(
            parent=each.parent_id,
            chosen=_words(trees[each.tree_id].node(each.chosen_id)),
            rejected=_words(trees[each.tree_id].node(each.rejected_id)),
            verifier=each.by,
            gap=each.gap,
            more={"task": each.task_id, "chosen_id": each.chosen_id, "rejected_id": each.rejected_id},
        )
        for each in found
    ]


def _of(loop: Loop[SportConfig], stage: str) -> list[StepPair]:
    given = loop.outputs(stage)
    return [] if given is None else read_pairs(loop.folder / str(given["file"]))


def _words(node: Node) -> str:
    """What a step says and calls."""
    calls = [f"{call.name}({call.arguments})" for call in node.message.tool_calls]
    return " ".join(filter(None, [node.message.text, *calls])) or "(nothing)"
