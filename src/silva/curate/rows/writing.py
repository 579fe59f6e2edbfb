"""A row as an object of a table again: what `read` made of one, with whatever else it said.

Row ─▶ {"messages": […], "tools": […]} · {"prompt", "chosen", "rejected"} · {"text"}   + label + the other fields
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.rows.row import Kind, Row
from silva.tree import Json, Node
from silva.tree.formats.chat import write_message, write_tool
from silva.tree.tree import tools


def object_of(row: Row) -> Json:
    """The object that is read as an equal row: the same words by the same roles, the same label and fields."""
    made: Json = dict(row.data)
    if row.kind is Kind.TEXT:
        made["text"] = row.nodes[0].message.text if row.nodes else ""
    elif row.kind is Kind.PREFERENCE:
        shared = _shared(row.nodes, row.rejected)
        made["prompt"] = _messages(row.nodes[:shared])
        made["chosen"], made["rejected"] = _messages(row.nodes[shared:]), _messages(row.rejected[shared:])
    else:
        made["messages"] = _messages(row.nodes)
        offered = tools(row.nodes)
        if offered:
            made["tools"] = [write_tool(tool) for tool in offered]
    if row.label is not None:
        made["label"] = row.label
    return made


def _messages(nodes: Sequence[Node]) -> list[Json]:
    return [write_message(node.message) for node in nodes]


def _shared(one: Sequence[Node], other: Sequence[Node]) -> int:
    """How many turns both begin with."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left.message != right.message:
            break
        count += 1
    return count
