"""Rows made by hand or from a package's items, and which of them are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from silva.curate.rows import Kind, Row
from silva.tree import Author, Message, Node, TextPart
from silva.tree.message import Role
from silva.tree.node import node_id

Said = tuple[str, str]
"""A role and what is said in it."""


def specimen(
    name: str,
    *said: Said,
    rejected: Sequence[Said] = (),
    data: dict[str, Any] | None = None,
) -> Row:
    """A row of what was said, by role.

    Args:
        name: the row's id: the corpus and the item.
        said: the turns from the first on; of a pair they end with what is preferred.
        rejected: of a pair, the walk that ends with what is not.
        data: what else the source says.
    """
    alone = len(said) == 1 and said[0][0] == "user" and not rejected
    return Row(
        id=name,
        kind=Kind.PREFERENCE if rejected else Kind.TEXT if alone else Kind.MESSAGES,
        source=name.partition(":")[0],
        nodes=walk(name, map(_message, said)),
        rejected=walk(name, map(_message, rejected)),
        data=data or {},
    )


def answered(name: str, prompt: str, reply: str, data: dict[str, Any] | None = None) -> Row:
    """A prompt and its reply."""
    return specimen(name, ("user", prompt), ("assistant", reply), data=data)


def held_out(*parts: str) -> bool:
    """Whether items of this group are kept from training; half of all groups are, always the same ones."""
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=2).digest()[0] % 2 == 0


def walk(tree: str, messages: Iterable[Message]) -> tuple[Node, ...]:
    """The nodes of a conversation, root first: the assistant's are the policy's, all others the environment's."""
    nodes: list[Node] = []
    for depth, message in enumerate(messages):
        author = Author.POLICY if message.role == "assistant" else Author.ENVIRONMENT
        parent = nodes[-1].id if nodes else None
        nodes.append(
            Node(
                id=node_id(tree, parent, author, message, None, ""),
                run_id="corpus",
                tree_id=tree,
                parent_id=parent,
                depth=depth,
                author=author,
                message=message,
            )
        )
    return tuple(nodes)


def _message(said: Said) -> Message:
    role, text = said
    return Message(role=cast(Role, role), parts=(TextPart(text=text),))
