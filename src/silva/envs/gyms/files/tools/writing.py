"""New files: text, tables and documents."""

from __future__ import annotations

from typing import Any

from silva.envs.gyms.files.drawing.files import drawn
from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import UsageError


def write_text(bench: Bench, path: str, text: str) -> str:
    """Write a plain text file (TXT, MD, CSV, JSON); gives its name."""
    if path.lower().rpartition(".")[2] in ("xlsx", "docx", "pptx", "pdf", "png", "jpg"):
        raise UsageError(f"write_text writes plain text; for {path[:40]!r} use write_table or write_document")
    return bench.folder.write(path, text.encode())


def write_table(bench: Bench, path: str, rows: list[list[Any]]) -> str:
    """Write rows of values, the header first, as an XLSX or CSV file; gives its name."""
    if any(isinstance(cell, list | dict) for row in rows for cell in row):
        raise UsageError("write_table: a cell is a text, a number or empty")
    ending = path.lower().rpartition(".")[2]
    if ending not in ("xlsx", "csv"):
        raise UsageError(f"write_table: path {path[:40]!r}: an XLSX or CSV file")
    if len(rows) > 20_000 or max((len(row) for row in rows), default=0) > 200:
        raise UsageError("write_table: at most 20,000 rows of 200 columns")
    return bench.folder.write(path, drawn({"kind": ending, "rows": rows}))


def write_document(bench: Bench, path: str, title: str, paragraphs: list[str]) -> str:
    """Write a DOCX file with a title and paragraphs; gives its name."""
    if not path.lower().endswith(".docx"):
        raise UsageError(f"write_document: path {path[:40]!r}: a DOCX file")
    blocks = [{"heading": title}, *({"text": text} for text in paragraphs)]
    return bench.folder.write(path, drawn({"kind": "docx", "blocks": blocks}))
