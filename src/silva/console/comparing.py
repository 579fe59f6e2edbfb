"""Two walks side by side: what they share, and where they first part.

Rows are the same where the same author said the same thing, be it one node or two: attempts at one task, two policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from silva.console.view import line
from silva.tree import Node


def side_by_side(left: Sequence[Node], right: Sequence[Node]) -> dict[str, Any]:
    """The two walks as lines, and `first`: the index of the first row in which they differ (None: they do not)."""
    first = next((i for i, pair in enumerate(zip(left, right, strict=False)) if not _same(*pair)), None)
    if first is None and len(left) != len(right):
        first = min(len(left), len(right))
    return {"left": [line(node) for node in left], "right": [line(node) for node in right], "first": first}


def _same(one: Node, other: Node) -> bool:
    if one.id == other.id:
        return True
    said, heard = one.message, other.message
    calls = [(call.name, call.arguments) for call in said.tool_calls]
    return (
        one.author is other.author
        and said.role == heard.role
        and said.parts == heard.parts
        and calls == [(call.name, call.arguments) for call in heard.tool_calls]
    )
