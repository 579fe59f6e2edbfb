"""The leaves of a line's grammar as one sequence: its words, and the operators and keywords between them.

    node ─▶ words (quotes undone) · operators · `;` where a statement ends ─▶ leaves

Two lines with the same leaves are one line, written down twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH = 60
"""Nesting that is looked into; what is deeper is computed."""
_VALUES = frozenset({"word", "raw_string", "ansi_c_string", "string", "concatenation", "simple_expansion", "expansion"})
"""Nodes of the grammar that are words."""
_JOINED = frozenset({"command", "pipeline", "list", "redirected_statement", "negated_command"})
"""Nodes of the grammar whose parts are statements that do not end there."""
_STATEMENTS = frozenset(
    {
        "command",
        "test_command",
        "declaration_command",
        "variable_assignment",
        "pipeline",
        "list",
        "redirected_statement",
        "negated_command",
        "if_statement",
        "for_statement",
        "c_style_for_statement",
        "while_statement",
        "case_statement",
        "compound_statement",
        "subshell",
        "function_definition",
    }
)


def leaves(node: Node, value: Callable[[Node, int], str], deep: int) -> Iterator[str]:
    """The words and operators of a node; comments are none.

    Args:
        node: of the grammar.
        value: what a node stands for as a word; asked at a depth.
        deep: how deep the node lies.
    """
    if node.type == "comment":
        return
    if node.type in _VALUES or deep > DEPTH or not node.children:
        yield ";" if node.type == "\n" else value(node, deep)
        return
    for child in node.children:
        yield from leaves(child, value, deep + 1)
    if node.type in _STATEMENTS and node.parent is not None and node.parent.type not in _JOINED:
        yield ";"
