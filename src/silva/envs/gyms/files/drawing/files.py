"""A file's description ─▶ its bytes. It is plain JSON and stands in the task, so that a task is small and whole.

{"kind": "xlsx", "sheets": {"orders": [[…], …]}}        {"kind": "csv", "rows": [[…], …]}
{"kind": "docx", "blocks": [{"heading": …}, {"text": …}, {"rows": [[…], …]}]}
{"kind": "pptx", "slides": [{"title": …, "lines": […], "rows": …, "notes": …}]}
{"kind": "pdf", "pages": [[line, …], …]}                {"kind": "txt", "text": …}
{"kind": "scene", "size": [w, h], "ground": colour, "things": [{"shape", "colour", "at": [x, y], "size"}]}
{"kind": "sign", "lines": [[left, right], …]}           {"kind": "base64", "content": …}
"""

from __future__ import annotations

import base64
import csv
import io
import re
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from silva.envs.gyms.files.drawing.scenes import scene, sign
from silva.errors import UsageError

Spec = Mapping[str, Any]
_EPOCH = (1980, 1, 1, 0, 0, 0)
_DATED = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")


def drawn(spec: Spec) -> bytes:
    """The bytes of the file that a description means.

    Raises:
        UsageError: it is none.
    """
    kind = str(spec.get("kind"))
    if kind not in _DRAWERS:
        raise UsageError(f"a file of kind {kind[:40]!r}; there are {', '.join(_DRAWERS)}")
    try:
        return _DRAWERS[kind](spec)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise UsageError(f"a file of kind {kind} is not described as it should be: {error!r}"[:200]) from error


def _xlsx(spec: Spec) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for name, rows in (spec.get("sheets") or {"table": spec["rows"]}).items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return _packed(book)


def _csv(spec: Spec) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(spec["rows"])
    return out.getvalue().encode()


def _docx(spec: Spec) -> bytes:
    from docx import Document

    made = Document()
    for block in spec["blocks"]:
        if "heading" in block:
            made.add_heading(block["heading"], int(block.get("level", 1)))
        elif "rows" in block:
            table = made.add_table(rows=0, cols=len(block["rows"][0]))
            for row in block["rows"]:
                for cell, value in zip(table.add_row().cells, row, strict=True):
                    cell.text = str(value)
        else:
            made.add_paragraph(block["text"])
    return _packed(made)


def _pptx(spec: Spec) -> bytes:
    from pptx import Presentation
    from pptx.util import Cm

    made = Presentation()
    for each in spec["slides"]:
        slide = made.slides.add_slide(made.slide_layouts[5])
        assert slide.shapes.title is not None
        slide.shapes.title.text = each["title"]
        if each.get("lines"):
            slide.shapes.add_textbox(Cm(2), Cm(5), Cm(20), Cm(6)).text_frame.text = "\n".join(each["lines"])
        if each.get("rows"):
            rows = each["rows"]
            table = slide.shapes.add_table(len(rows), len(rows[0]), Cm(2), Cm(11), Cm(20), Cm(6)).table
            for line, row in enumerate(rows):
                for column, value in enumerate(row):
                    table.cell(line, column).text = str(value)
        if each.get("notes"):
            frame = slide.notes_slide.notes_text_frame
            assert frame is not None
            frame.text = each["notes"]
    return _packed(made)


def _pdf(spec: Spec) -> bytes:
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4, invariant=1)
    for page in spec["pages"]:
        for number, line in enumerate(page):
            canvas.drawString(60, 780 - 18 * number, str(line))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def _txt(spec: Spec) -> bytes:
    return str(spec["text"]).encode()


def _base64(spec: Spec) -> bytes:
    return base64.b64decode(spec["content"], validate=True)


def _packed(made: Any) -> bytes:
    """A saved office file without the hour at which it was saved."""
    out = io.BytesIO()
    made.save(out)
    steady = io.BytesIO()
    with zipfile.ZipFile(out) as inside, zipfile.ZipFile(steady, "w", zipfile.ZIP_DEFLATED) as outside:
        for name in inside.namelist():
            content = inside.read(name)
            if name == "docProps/core.xml":
                content = _DATED.sub(rb"\g<1>2020-01-01T00:00:00Z", content)
            outside.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return steady.getvalue()


_DRAWERS: dict[str, Callable[[Spec], bytes]] = {
    "xlsx": _xlsx,
    "csv": _csv,
    "docx": _docx,
    "pptx": _pptx,
    "pdf": _pdf,
    "txt": _txt,
    "scene": scene,
    "sign": sign,
    "base64": _base64,
}
