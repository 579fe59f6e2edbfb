"""Copies of the policy's replies: what a client made of them, where it does not send them back in their place.

    client drops, moves or rewrites something ─▶ the words part ─▶ a branch of what the model saw since
                                                                     └ its assistant messages: copies, linked to
                                                                       the nodes that were sampled

A walk is what the model saw. So a reply that a client wrote anew, or that stands behind another beginning than it was
sampled behind, is a node of its own on the new branch, by the environment and without ids: it is context and never
carries loss. Its link says which sampled node it stands for; that one keeps its ids and its own walk.
"""

from __future__ import annotations

from collections.abc import Iterable

from silva.tree.node import Author, Node

REPEATS = "repeats"
"""Attribute of a node with the policy's own words behind another beginning: the id of the node that was sampled."""
REWRITES = "rewrites"
"""Attribute of a node with a client's words in place of the policy's: the id of the node that was sampled."""


def copy_of(node: Node) -> str:
    """The id of the sampled node that a node is a copy of; "" where it is none."""
    if node.message.role != "assistant":  # of a result, `rewrites` names what the environment really said
        return ""
    return str(node.attributes.get(REPEATS) or node.attributes.get(REWRITES) or "")


def turn_at(node: Node) -> str:
    """The id of the sampled node that stands at a place of a walk, itself or as a copy; "" where none does."""
    return node.id if node.author is Author.POLICY else copy_of(node)


def turns_on(walk: Iterable[Node]) -> list[str]:
    """The ids of the nodes that the policy sampled along a walk, those of which only a copy stands on it included."""
    return list(dict.fromkeys(each for each in map(turn_at, walk) if each))
