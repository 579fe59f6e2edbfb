"""What a saved document holds, as JSON. `reader.py PACKAGES KIND FILE`; runs in a sandbox made for one document."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

MOST_CELLS = 20_000
MOST_XML = 64 << 20
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"


def xlsx(path: Path) -> dict[str, Any]:
    """Cells of a workbook: the values last calculated, and the formulas."""
    from openpyxl import load_workbook
    from openpyxl.utils import get_column_letter

    values, formulas = load_workbook(path, data_only=True), load_workbook(path)
    sheets: dict[str, Any] = {}
    for sheet in formulas.worksheets:
        cells: dict[str, Any] = {}
        for row in sheet.iter_rows():
            for cell in row:
                if cell.value is not None and len(cells) < MOST_CELLS:
                    place = f"{get_column_letter(cell.column)}{cell.row}"
                    formula = cell.value if isinstance(cell.value, str) and cell.value.startswith("=") else ""
                    cells[place] = {"value": _plain(values[sheet.title][place].value), "formula": formula}
        sheets[sheet.title] = cells
    return {"sheets": sheets}


def ods(path: Path) -> dict[str, Any]:
    """Cells of a spreadsheet in OpenDocument."""
    sheets: dict[str, Any] = {}
    for table in _content(path).iter(f"{_TABLE}table"):
        cells: dict[str, Any] = {}
        row = 0
        for line in table.iter(f"{_TABLE}table-row"):
            column = 0
            for cell in line:
                if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                    continue
                times = int(cell.get(f"{_TABLE}number-columns-repeated", "1"))
                text = "\n".join("".join(each.itertext()) for each in cell.iter(f"{_TEXT}p"))
                number = cell.get(f"{_OFFICE}value")
                if text or number is not None:
                    formula = cell.get(f"{_TABLE}formula", "").removeprefix("of:")
                    for step in range(min(times, 100)):
                        if len(cells) < MOST_CELLS:
                            value: Any = text if number is None else float(number)
                            cells[f"{_letters(column + step)}{row + 1}"] = {"value": value, "formula": formula}
                column += times
            row += int(line.get(f"{_TABLE}number-rows-repeated", "1"))
        sheets[table.get(f"{_TABLE}name", "")] = cells
    return {"sheets": sheets}


def odt(path: Path) -> dict[str, Any]:
    """Paragraphs and headings of a text, in their order."""
    blocks: list[dict[str, Any]] = []
    for block in _content(path).iter():
        if block.tag == f"{_TEXT}h":
            level = int(block.get(f"{_TEXT}outline-level", "1"))
            blocks.append({"level": level, "text": "".join(block.itertext())})
        elif block.tag == f"{_TEXT}p":
            blocks.append({"level": 0, "text": "".join(block.itertext())})
    return {"blocks": blocks}


READERS = {"xlsx": xlsx, "ods": ods, "odt": odt}


def _content(path: Path) -> ElementTree.Element:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("content.xml").file_size > MOST_XML:
            raise ValueError("content.xml is too large")
        return ElementTree.fromstring(archive.read("content.xml"))


def _letters(column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool) or value is None else str(value)


def main(packages: str, kind: str, path: str) -> int:
    """Print the JSON; 3 where the document cannot be read."""
    sys.path.insert(0, packages)
    try:
        json.dump(READERS[kind](Path(path)), sys.stdout)
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return 4
    except Exception as error:  # noqa: BLE001 - the file is untrusted and may make its parser raise anything
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
