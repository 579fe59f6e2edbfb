"""A walk as evidence checkers read it: the actions that were taken, what stood before each, and who had said it.

walk ─▶ Act: the node, its turn, what trusted people said, what came back before it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from silva.rollout.guided_nodes import answers, not_taken, takes_turn
from silva.rollout.risks import risks_of
from silva.tree import Author, Node, ToolCall, assistant


class Act(NamedTuple):
    """One action of the policy that the environment heard of. `trusted` is what the task and people said before it,
    `results` are the nodes that came back before it."""

    turn: int
    node: Node
    trusted: str
    results: tuple[Node, ...]


def acts(walk: Sequence[Node]) -> Iterator[Act]:
    """The taken actions of a walk (root first), in order."""
    untaken = not_taken(walk)
    # Environments answer in tool messages or in user messages; where there are tool messages, a user's are a user's.
    tooled = any(node.message.role == "tool" for node in walk)
    trusted: list[str] = []
    results: list[Node] = []
    turn = 0
    for node in walk:
        if takes_turn(node):
            turn += 1
            if node.author is Author.POLICY and node.id not in untaken:
                yield Act(turn, node, "\n".join(trusted), tuple(results))
        elif node.message.role == "tool" or node.author is Author.ATTACKER or (turn and answers(node) and not tooled):
            results.append(node)
        else:
            trusted.append(node.message.text)


def acting(walk: Sequence[Node]) -> bool:
    """Whether an agent acts in a walk: some action calls a tool."""
    return any(takes_turn(node) and node.message.tool_calls for node in walk)


def kinds_of_call(call: ToolCall) -> frozenset[str]:
    """The kinds of risk of one call (`silva.rollout.risks`)."""
    return frozenset(risks_of(assistant("", call)))


NO_ACTION = "no action of an agent is in it"
"""Why evidence cannot be looked for."""
