"""What a path that was cut off had come to: its stored nodes, by their place, as they are taken up again."""

from __future__ import annotations

from collections.abc import Iterable

from silva.rollout.guided_nodes import BESIDE, INSTEAD_OF, REWRITTEN
from silva.rollout.judged import spent_at
from silva.rollout.summary import made_at
from silva.tree import NO_USAGE, Author, Node, Usage


class Stored:
    """The nodes of one attempt. On the walk stands what was shown and taken; beside it stand actions that others took
    the place of, candidates that were not chosen, and what was said and not shown."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        nodes = tuple(nodes)
        self._set_aside: dict[str, Node] = {}
        self._beside: list[Node] = []
        self._at: dict[int, Node] = {}
        self.summaries: dict[str, Node] = {}
        """By the node at which each came into force."""
        if nodes:  # none as a rule
            self._sort(nodes)

    def _sort(self, nodes: tuple[Node, ...]) -> None:
        replaced = {str(node.attributes[INSTEAD_OF]) for node in nodes if INSTEAD_OF in node.attributes}
        self._set_aside = {node.id: node for node in nodes if node.id in replaced}
        self._beside = [node for node in nodes if BESIDE in node.attributes]
        self.summaries = made_at(node for node in nodes if node.author is Author.SUMMARISER)
        self._at = {
            node.depth: node
            for node in nodes
            if node.author is not Author.SUMMARISER
            and node.id not in replaced
            and not {BESIDE, REWRITTEN} & node.attributes.keys()
        }

    def at(self, depth: int) -> Node | None:
        """The node of the walk at that place; None where it ends before."""
        return self._at.get(depth)

    def cost(self, action: Node) -> Usage:
        """What an action cost, with what was drawn at its place and not taken."""
        aside = self._set_aside.get(str(action.attributes.get(INSTEAD_OF)))
        others = [node.usage for node in self._beside if node.parent_id == action.parent_id]
        return sum(others, action.usage + spent_at(action) + (aside.usage if aside is not None else NO_USAGE))


def in_words(node: Node) -> str:
    """The beginning of what a node says, in quotes."""
    text = node.message.text.replace("\n", " ")
    return repr(text[:60] + ("…" if len(text) > 60 else ""))
