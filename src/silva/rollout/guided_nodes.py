"""How a hand that is neither the policy's nor the environment's shows on the nodes of a walk: which nodes are actions,
which actions were not taken, which answers are not what the environment said.

    policy node                        the policy's action
    person's node, role assistant      an action that a person took in the policy's place
    policy node, `asked`               it waited for approval, for these reasons
    policy node, `refused`             not taken: a pattern forbids it
    any node, `refuses` = ID           the answer to an action that was rejected: it was not taken
    person's node, `instead_of` = ID   a person's action in the place of that one, which stands beside it
    person's node, `unwritten`         the agent's form does not hold that action, so it has no ids; why
    policy node, `beside`              a candidate that was not chosen; it stands beside the one that was
    environment's node, `beside`       what a copy of the environment answered to that candidate, behind it
    policy node, `candidate`           what a verifier found of it (`silva.rollout.judged`)
    policy node, `search`              the candidate that was chosen: how its search went, and `acted`: who chose
    any node, `rewrites` = ID          what was shown in the place of the environment's node of that id
    environment's node, `rewritten`    what it really said, beside what was shown
    any node, `added`                  said besides, by the stage of that name

Readers of walks ask here, so that a turn that was never taken is not taken again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from silva.tree import Author, Node

REFUSED = "refused"
"""The attribute of a policy node whose action was not taken; it holds who forbade it."""

REFUSES = "refuses"
"""The attribute of a node that answers an action in the environment's place; it holds the action's id."""

INSTEAD_OF = "instead_of"
"""The attribute of a person's action; it holds the id of the action whose place it took."""

UNWRITTEN = "unwritten"
"""The attribute of a person's action that was to have ids and has none; it says why."""

ASKED = "asked"
"""The attribute of a policy node that waited for approval; it holds the reasons."""

WORDS = "words"
"""The attribute of a person's node: the ids of the supervision that records its words."""

BESIDE = "beside"
"""The attribute of a candidate action that was not chosen, and of what it was answered."""

REWRITES = "rewrites"
"""The attribute of a node that is shown in the environment's place; it holds the id of what the environment said."""

REWRITTEN = "rewritten"
"""The attribute of what the environment said and was not shown; it holds the name of the stage that rewrote it."""

ADDED = "added"
"""The attribute of a node that a stage added; it holds the stage's name."""

BACK = "back"
"""The attribute of a trajectory that ended because a person went back to one of its turns."""


def takes_turn(node: Node) -> bool:
    """Whether a node is an action: the policy's, or one that a person took in its place."""
    return node.author is Author.POLICY or (node.author is Author.PERSON and node.message.role == "assistant")


def answers(node: Node) -> bool:
    """Whether a node of a walk is (or stands in the place of) what the environment said."""
    marks = node.attributes
    if REWRITTEN in marks or ADDED in marks:
        return False
    return node.author in (Author.ENVIRONMENT, Author.ATTACKER) or REWRITES in marks


def action_behind(walk: Iterable[Node], places: Container[str | None]) -> Node | None:
    """The first action of a walk (root first) behind any of the nodes with these ids; None where there is none."""
    behind = False
    for node in walk:
        if behind and takes_turn(node):
            return node
        behind = behind or node.id in places
    return None


def not_taken(walk: Iterable[Node]) -> set[str]:
    """Ids of a walk's actions that the environment never heard of."""
    found: set[str] = set()
    for node in walk:
        if REFUSED in node.attributes:
            found.add(node.id)
        elif node.author is not Author.ENVIRONMENT and REFUSES in node.attributes:
            found.add(str(node.attributes[REFUSES]))
    return found
