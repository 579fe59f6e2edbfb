"""The text of a PDF, DOCX or PPTX, or what an image says of itself. `python reader.py PACKAGES KIND FILE`.

A program of its own: it runs in a sandbox made for one document, and imports nothing of Silva. What it prints is the
answer; a document that cannot be read ends it with code 3 and one line on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_PAGES = 300


def pdf(path: Path) -> Iterator[str]:
    """Pages with their numbers, and the document's title and author."""
    from pypdf import PdfReader

    found = PdfReader(path)
    if found.is_encrypted and not found.decrypt(""):
        raise ValueError("it is encrypted")
    about = found.metadata
    for name in ("title", "author"):
        value = getattr(about, name, None) if about else None
        if value:
            yield f"{name}: {value}"
    for number, page in enumerate(found.pages, 1):
        if number > MOST_PAGES:
            yield f"[{len(found.pages) - MOST_PAGES} more pages]"
            return
        yield f"--- page {number} of {len(found.pages)} ---"
        yield page.extract_text().strip()


def docx(path: Path) -> Iterator[str]:
    """Paragraphs and tables in their order; headings as in Markdown."""
    from docx import Document

    found = Document(str(path))
    for block in found.iter_inner_content():
        if hasattr(block, "rows"):
            yield from _table(block)
        elif block.text.strip():
            style = (block.style.name if block.style else "") or ""
            level = style.rpartition(" ")[2] if style.startswith("Heading ") else ""
            yield f"{'#' * int(level)} {block.text}" if level.isdigit() else block.text


def pptx(path: Path) -> Iterator[str]:
    """Slides with their texts, tables and notes."""
    from pptx import Presentation

    slides = Presentation(str(path)).slides
    for number, slide in enumerate(slides, 1):
        yield f"--- slide {number} of {len(slides)} ---"
        for shape in slide.shapes:
            if getattr(shape, "has_table", False):
                yield from _table(shape.table)  # pyright: ignore[reportAttributeAccessIssue]
            elif shape.has_text_frame and shape.text_frame.text.strip():  # pyright: ignore[reportAttributeAccessIssue]
                yield shape.text_frame.text  # pyright: ignore[reportAttributeAccessIssue]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            yield f"notes: {slide.notes_slide.notes_text_frame.text}"


def image(path: Path) -> Iterator[str]:
    """Format, size, colours, EXIF and text fields. The picture itself is not decoded."""
    from PIL import ExifTags, Image

    with Image.open(path) as found:
        yield f"format: {found.format}\nsize: {found.width} x {found.height} pixels\ncolours: {found.mode}"
        for key, value in sorted(found.info.items(), key=lambda pair: str(pair[0])):
            if isinstance(value, str | int | float | tuple):
                yield f"{key}: {value}"
        for tag, value in found.getexif().items():
            yield f"exif {ExifTags.TAGS.get(tag, tag)}: {str(value)[:500]}"


READERS = {"pdf": pdf, "docx": docx, "pptx": pptx, "image": image}


def _table(table: Any) -> Iterator[str]:
    for row in table.rows:
        yield " | ".join(" ".join(cell.text.split()) for cell in row.cells)


def main(packages: str, kind: str, path: str) -> int:
    """Print the text; 3 where there is none to be had."""
    sys.path.insert(0, packages)
    try:
        for line in READERS[kind](Path(path)):
            sys.stdout.write(f"{line}\n")
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return 4
    except Exception as error:  # noqa: BLE001 - the file is untrusted and may make its parser raise anything
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
