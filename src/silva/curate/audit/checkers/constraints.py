"""Instruction mismatch by verifiable constraints: what was plainly demanded and plainly not done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.demands import demands
from silva.curate.audit.finding import Finding, NotChecked
from silva.tree import Node

if TYPE_CHECKING:
    from silva.curate.rows import Row

_LONGEST = 20_000
"""Characters of a prompt in which demands are looked for: a long one quotes more than it demands."""


@checker
class Constraints(RowChecker):
    """Demands of length, form, words and letter case, against the reply to them. A row whose last question demands
    nothing that can be verified is not checked."""

    name = "constraint_rules"
    risk = "instruction_mismatch"
    family = Family.RULES
    summary = "demands that can be verified (lengths, form, words, letter case) and were not met"
    version = "2"

    def check(self, row: Row) -> Iterable[Finding] | NotChecked:
        """See `RowChecker`."""
        pair = _last(row.nodes)
        if pair is None:
            return NotChecked(why="there is no reply of an assistant to what a user asked")
        asked, reply = pair
        found = demands(asked.message.text[:_LONGEST])
        if not found:
            return NotChecked(why="the prompt demands nothing that can be verified by rules")
        text = reply.message.text
        return [
            self.finding(row, reply, score=1.0, evidence=f"{each.kind}: {each.words}")
            for each in found
            if not each.holds(text)
        ]


def _last(nodes: Iterable[Node]) -> tuple[Node, Node] | None:
    """The last question of a user that was answered in words without calls of tools, and that answer."""
    asked: Node | None = None
    pair: tuple[Node, Node] | None = None
    for node in nodes:
        if node.message.role == "user":
            asked = node
        elif node.message.role == "assistant" and asked is not None and node.message.text.strip():
            pair = None if node.message.tool_calls else (asked, node)
    return pair
