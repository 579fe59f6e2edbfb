"""Documents that tasks begin with, made from rows and lines."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from html import escape

Cell = str | float
_NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table", "style")
)


def workbook(rows: Sequence[Sequence[Cell | None]], sheet: str = "Sheet1") -> bytes:
    """An xlsx of one sheet."""
    from openpyxl import Workbook

    book = Workbook()
    page = book.active
    assert page is not None
    page.title = sheet
    for row in rows:
        page.append(list(row))
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def spreadsheet(rows: Sequence[Sequence[Cell | None]], sheet: str = "Sheet1") -> bytes:
    """An ods of one sheet."""
    lines = "".join(f"<table:table-row>{''.join(map(_cell, row))}</table:table-row>" for row in rows)
    body = f'<office:spreadsheet><table:table table:name="{escape(sheet)}">{lines}</table:table></office:spreadsheet>'
    return _packed("spreadsheet", body)


def text(paragraphs: Sequence[str]) -> bytes:
    """An odt of paragraphs."""
    lines = "".join(f"<text:p>{escape(paragraph)}</text:p>" for paragraph in paragraphs)
    return _packed("text", f"<office:text>{lines}</office:text>")


def _cell(value: Cell | None) -> str:
    if value is None:
        return "<table:table-cell/>"
    if isinstance(value, str):
        return f'<table:table-cell office:value-type="string"><text:p>{escape(value)}</text:p></table:table-cell>'
    return (
        f'<table:table-cell office:value-type="float" office:value="{value:g}"><text:p>{value:g}</text:p>'
        "</table:table-cell>"
    )


def _packed(kind: str, body: str) -> bytes:
    media = f"application/vnd.oasis.opendocument.{kind}"
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {_NAMESPACES} office:version="1.3">'
        f"<office:body>{body}</office:body></office:document-content>"
    )
    manifest = (
        '<?xml version="1.0" encoding="UTF-8"?><manifest:manifest manifest:version="1.3" '
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{media}"/>'
        '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>'
    )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("mimetype", media, zipfile.ZIP_STORED)
        archive.writestr("content.xml", content, zipfile.ZIP_DEFLATED)
        archive.writestr("META-INF/manifest.xml", manifest, zipfile.ZIP_DEFLATED)
    return written.getvalue()
