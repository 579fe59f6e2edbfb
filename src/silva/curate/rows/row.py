"""A row: one thing that is looked at as a whole."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from silva.tree import Json, Node, Record, Trajectory, digest

EXACT = "silva_row"
"""The column of a table that holds the whole row, as JSON text: what Silva released is read back as it was."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Kind(StrEnum):
    """What a row is."""

    TRAJECTORY = "trajectory"
    """A walk of a lake or of a file of trajectories."""
    MESSAGES = "messages"
    """A conversation of a table, such as a prompt and its answer."""
    PREFERENCE = "preference"
    """A conversation whose end is preferred to another end."""
    TEXT = "text"
    """A text that nobody says to anybody, as data for pretraining has it."""


class Row(Record, frozen=True, kw_only=True):
    """One thing that is looked at: its nodes from the root on, and what else its source says.

    `nodes` is the whole walk; of a preference it ends with what is preferred, and `rejected` is the whole walk that
    ends with what is not. A text is one user node. `label` is the source's own verdict (None: it has none), `data` all
    its other fields. `source` is the run, or the file and the line.
    """

    id: str
    kind: Kind
    source: str
    nodes: tuple[Node, ...]
    rejected: tuple[Node, ...] = ()
    label: Any = None
    data: Json = msgspec.field(default_factory=dict[str, Any])
    trajectory: Trajectory | None = None

    @property
    def content(self) -> str:
        """A digest of what is said in it, by whom: equal for equal words from another file or run."""
        return digest(
            *(_encode([(n.author, n.message, n.tools) for n in walk]) for walk in (self.nodes, self.rejected))
        )

    @property
    def prompt(self) -> str:
        """What is asked: the text of all system and user turns before the first reply."""
        said: list[str] = []
        for node in self.nodes:
            if node.message.role == "assistant":
                break
            said.append(node.message.text)
        return "\n".join(filter(None, said))

    @property
    def reply(self) -> str:
        """What the assistant says last; empty where it says nothing."""
        return next((n.message.text for n in reversed(self.nodes) if n.message.role == "assistant"), "")

    @property
    def text(self) -> str:
        """All that is said, calls of tools too, turn by turn."""
        return "\n".join(filter(None, (said(node) for node in self.nodes)))


def said(node: Node) -> str:
    """What a node says in words: its thinking, its text, and its calls as `name arguments`."""
    message = node.message
    calls = (f"{each.name} {each.arguments}" for each in message.tool_calls)
    return "\n".join(filter(None, (message.thinking, message.text, *calls)))
