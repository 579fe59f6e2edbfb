"""What the tables hold, told from the column specification: `silva lake columns`."""

from __future__ import annotations

from silva.lake.columns import TABLES


def documentation() -> str:
    """The tables and columns as Markdown."""
    lines: list[str] = []
    for table in TABLES.values():
        lines += [f"## {table.name}", "", table.doc, "", "| column | type | field | meaning |", "|---|---|---|---|"]
        lines += [f"| {c.name} | `{c.type}` | {c.path or '(derived)'} | {c.doc} |" for c in table.columns]
        lines.append("")
    return "\n".join(lines)
