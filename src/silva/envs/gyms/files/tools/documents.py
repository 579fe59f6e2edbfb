"""Documents: the text and the tables of DOCX, PPTX and PDF files, and plain text."""

from __future__ import annotations

import io
import re
from typing import Any

from silva.envs.gyms.files.folder import Folder
from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import UsageError

MOST_PAGES = 300
_PLAIN = ("txt", "md", "csv", "tsv", "json", "log", "html", "xml", "py", "")


def list_files(bench: Bench) -> list[dict[str, Any]]:
    """The files there are: name and bytes."""
    return [{"path": name, "bytes": len(bench.folder.read(name))} for name in bench.folder.names()]


def read_text(bench: Bench, path: str, first: int = 1, last: int = 0) -> str:
    """Read a plain text file (TXT, MD, CSV, JSON, LOG), or its lines from `first` to `last` (0: to the end)."""
    lines = _plain_text(bench.folder, path).splitlines()
    return "\n".join(lines[max(first, 1) - 1 : last or None])


def read_document(bench: Bench, path: str) -> str:
    """Read the paragraphs and tables of a DOCX file in their order; headings begin with #, table rows hold |."""
    return "\n".join(_docx(bench.folder, path))


def document_table(bench: Bench, path: str, number: int = 1) -> list[list[Any]]:
    """Read a table of a DOCX or PPTX file as rows, the header first; `number` counts the file's tables from 1."""
    found = _tables(bench.folder, path)
    if not 0 < number <= len(found):
        raise UsageError(f"{path} has {len(found)} tables, and so no table {number}")
    return found[number - 1]


def read_slides(bench: Bench, path: str, number: int = 0) -> list[dict[str, Any]]:
    """Read the slides of a PPTX file (one of them by its number): title, texts, tables and speaker's notes."""
    made = _slides(bench.folder, path)
    if not 0 <= number <= len(made):
        raise UsageError(f"{path} has {len(made)} slides, and so no slide {number}")
    return [made[number - 1]] if number else made


def read_pdf(bench: Bench, path: str, page: int = 0) -> str:
    """Read the text of a PDF file, or of one page of it by its number; pages are told apart by a line."""
    pages = _pdf(bench.folder, path)
    if not 0 <= page <= len(pages):
        raise UsageError(f"{path} has {len(pages)} pages, and so no page {page}")
    if page:
        return pages[page - 1]
    return "\n".join(f"--- page {number} of {len(pages)} ---\n{text}" for number, text in enumerate(pages, 1))


def find_text(bench: Bench, path: str, pattern: str) -> list[dict[str, Any]]:
    """Find the lines of a DOCX, PPTX, PDF or text file that hold the words of `pattern` (no matter the case), with the
    number of their line, page or slide."""
    if not pattern.strip():
        raise UsageError("find_text: the pattern is empty")
    wanted = " ".join(pattern.casefold().split())
    found: list[dict[str, Any]] = []
    for number, text in enumerate(_parts(bench.folder, path), 1):
        found += [
            {"at": number, "line": line.strip()}
            for line in text.splitlines()
            if wanted in " ".join(line.casefold().split())
        ]
    return found[:200]


def text_of(folder: Folder, path: str) -> str:
    """All the text of a file of any of these kinds.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    return "\n".join(_parts(folder, path))


def _parts(folder: Folder, path: str) -> list[str]:
    match _ending(path):
        case "docx":
            return _docx(folder, path)
        case "pptx":
            return [_said(slide) for slide in _slides(folder, path)]
        case "pdf":
            return _pdf(folder, path)
        case "xlsx":
            from silva.envs.gyms.files.tools.tables import sheets

            rows = [row for sheet in sheets(folder, path).values() for row in sheet]
            return [" | ".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return _plain_text(folder, path).splitlines()


def _said(slide: dict[str, Any]) -> str:
    rows = [" | ".join(row) for table in slide["tables"] for row in table]
    return "\n".join([slide["title"], *slide["texts"], *rows, slide["notes"]])


def _plain_text(folder: Folder, path: str) -> str:
    content = folder.read(path)
    if _ending(path) not in _PLAIN and b"\0" in content[:4096]:
        raise UsageError(f"{path} is no plain text: there are tools for XLSX, DOCX, PPTX, PDF and pictures")
    return content.decode("utf-8", errors="replace")


def _docx(folder: Folder, path: str) -> list[str]:
    lines: list[str] = []
    for block in _opened(folder, path, "docx").iter_inner_content():
        if hasattr(block, "rows"):
            lines += [" | ".join(cells) for cells in _cells(block)]
        elif block.text.strip():
            level = re.fullmatch(r"(?:Heading|Title) ?(\d?)", (block.style.name if block.style else "") or "")
            lines.append(f"{'#' * int(level[1] or 1)} {block.text}" if level else block.text)
    return lines


def _slides(folder: Folder, path: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number, slide in enumerate(_opened(folder, path, "pptx").slides, 1):
        if number > MOST_PAGES:
            break
        title = slide.shapes.title
        texts = [
            shape.text_frame.text
            for shape in slide.shapes
            if shape.has_text_frame and (title is None or shape.shape_id != title.shape_id)
        ]
        made.append(
            {
                "slide": number,
                "title": title.text_frame.text if title is not None else "",
                "texts": [text for text in texts if text.strip()],
                "tables": [_cells(shape.table) for shape in slide.shapes if getattr(shape, "has_table", False)],
                "notes": slide.notes_slide.notes_text_frame.text if slide.has_notes_slide else "",
            }
        )
    return made


def _pdf(folder: Folder, path: str) -> list[str]:
    from pypdf import PdfReader

    if _ending(path) != "pdf":
        raise UsageError(f"{path} is no PDF")
    content = folder.read(path)
    try:
        found = PdfReader(io.BytesIO(content))
        if found.is_encrypted and not found.decrypt(""):
            raise UsageError(f"{path} is encrypted")
        return [page.extract_text().strip() for page in found.pages[:MOST_PAGES]]
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be read as a PDF: {' '.join(str(error).split())[:120]}") from error


def _tables(folder: Folder, path: str) -> list[list[list[Any]]]:
    from silva.envs.gyms.files.tools.tables import _plain

    if _ending(path) == "pptx":
        found = [table for slide in _slides(folder, path) for table in slide["tables"]]
    else:
        found = [_cells(table) for table in _opened(folder, path, "docx").tables]
    return [[[_plain(cell) for cell in row] for row in table] for table in found]


def _cells(table: Any) -> list[list[str]]:
    return [[" ".join(cell.text.split()) for cell in row.cells] for row in table.rows]


def _opened(folder: Folder, path: str, ending: str) -> Any:
    if _ending(path) != ending:
        raise UsageError(f"{path} is no {ending.upper()}")
    packed = folder.packed(path)
    try:
        if ending == "docx":
            from docx import Document

            return Document(packed)
        from pptx import Presentation

        return Presentation(packed)
    except Exception as error:
        raise UsageError(f"{path} cannot be read as {ending.upper()}: {' '.join(str(error).split())[:120]}") from error


def _ending(path: str) -> str:
    return path.lower().rpartition("/")[2].partition(".")[2].rpartition(".")[2]
