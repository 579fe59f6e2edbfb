"""The shape of a tree: its branches as pieces between forks, which can be walked; and what the model saw at a turn.

root ──▶ piece 0 ──┬▶ piece 1 (attempt 0.0) ─▶ leaf
                   └▶ piece 2 (attempt 0.1) ──┬▶ piece 3 …
"""

from __future__ import annotations

from typing import Any

from silva.console.attempt import brief
from silva.console.trees import OpenTree
from silva.console.view import said
from silva.errors import UsageError
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.seen import seen_at
from silva.tree import Author, Node, Outcome, Status, TextPart, ThinkingPart, Trajectory

MOST_PIECES = 2_000


def pieces(tree: OpenTree, masked: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The tree's pieces, each after the one it hangs on. `first` and `last` are nodes, `on` the piece above (None at a
    root), `turns` how many it holds, `begins` who wrote its first node, `end` whether it ends in a leaf; `people`,
    `masked` and `risks` count turns and words of people, turns that carry no loss, and turns with a risk."""
    found: list[dict[str, Any]] = []
    waiting: list[tuple[Node, int | None]] = [(root, None) for root in reversed(tree.children(None))]
    while waiting and len(found) < MOST_PIECES:
        first, on = waiting.pop()
        node, turns, count = first, 0, 0
        people = dropped = risks = 0
        while True:
            turns += takes_turn(node)
            count += 1
            people += node.author is Author.PERSON
            dropped += node.id in masked
            risks += bool(node.risks)
            children = tree.children(node.id)
            if len(children) != 1 or (not node.slot and children[0].slot):
                break
            node = children[0]
        found.append(
            {
                "number": len(found),
                "on": on,
                "first": first.id,
                "last": node.id,
                "depth": first.depth,
                "nodes": count,
                "turns": turns,
                "slot": node.slot,
                "run": node.run_id,
                "people": people,
                "masked": dropped,
                "risks": risks,
                "begins": str(first.author),
                "text": brief(first, 90),
                "end": not children,
            }
        )
        waiting.extend((child, found[-1]["number"]) for child in reversed(children))
    return found


def context(tree: OpenTree, id: str, agent: str) -> dict[str, Any]:
    """Exactly what the model was given before it took a turn: the messages as its agent showed them, a summary in the
    place of earlier turns where one was in force, the tools, and how many ids the prompt had where they are known.

    Args:
        tree: that holds it.
        id: the turn's node.
        agent: the run's agent; `react` shows its model text only.

    Raises:
        UsageError: there is no such node, or it takes no turn.
    """
    node = tree.node(id)
    if not takes_turn(node):
        raise UsageError(f"node {id[:12]} was written by the {node.author}: a context is what the model saw at a turn")
    place, _, attempt = node.slot.partition(".")
    record = Trajectory(
        id=id,
        run_id=node.run_id,
        tree_id=tree.id,
        task_id="",
        env="",
        index=int(place) if place.isdigit() else 0,
        attempt=int(attempt) if attempt.isdigit() else 0,
        seed=0,
        leaf_id=id,
        outcome=Outcome(status=Status.COMPLETED),
        agent=agent,
    )
    seen = seen_at(tree.tree(), record, 0)
    parts = [part for each in seen.messages for part in each.parts]
    return {
        "node": id,
        "turn": seen.turn,
        "messages": [said(each) for each in seen.messages],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in seen.tools
        ],
        "characters": sum(len(part.text) for part in parts if isinstance(part, TextPart | ThinkingPart)),
        "summary": None if seen.summary is None else seen.summary.id,
        "prompt_tokens": node.usage.prompt_tokens,
        "ids": None if seen.ids is None else len(seen.ids),
        "model": node.model,
        "version": node.policy_version,
    }
