"""The operators of a curation as a model is told of them: their names, numbers, and first lines."""

from __future__ import annotations

import ast

from silva.curate.curation.source import operators


def told() -> str:
    """One line for each operator."""
    lines: list[str] = []
    for each in ast.parse(operators()).body:
        if isinstance(each, ast.FunctionDef):
            doc = " ".join((ast.get_docstring(each) or "").split())
            lines.append(f"{each.name}({ast.unparse(each.args)}): {doc}")
    return "\n".join(lines)
