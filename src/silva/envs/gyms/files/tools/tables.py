"""Tables: sheets of XLSX and CSV files, cell by cell and by SQL (SQLite in memory, which may only read)."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from collections.abc import Iterable
from typing import Any

from silva.envs.gyms.files.folder import Folder
from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import UsageError

MOST_ROWS = 20_000
MOST_COLUMNS = 200
_MOST_STEPS = 500
_CELL = re.compile(r"([A-Za-z]{1,3})(\d{1,5})(?::([A-Za-z]{1,3})(\d{1,5}))?")

Rows = list[list[Any]]


def sheets(folder: Folder, path: str) -> dict[str, Rows]:
    """The sheets of a table file by name, as rows of plain values; a CSV has one, `table`.

    Raises:
        UsageError: there is no such file, it is damaged, or no table.
    """
    ending = path.lower().rpartition(".")[2]
    if ending in ("csv", "tsv"):
        text = folder.read(path).decode("utf-8-sig", errors="replace")
        read = csv.reader(io.StringIO(text), delimiter="\t" if ending == "tsv" else ",")
        try:
            return {"table": _bounded(path, ([_plain(cell) for cell in row] for row in read if row))}
        except csv.Error as error:
            raise UsageError(f"{path} cannot be read as a table: {error}") from error
    if ending != "xlsx":
        raise UsageError(f"{path} is no table: XLSX, CSV and TSV are")
    import openpyxl

    packed = folder.packed(path)
    try:
        book = openpyxl.load_workbook(packed, read_only=True, data_only=True)
        return {
            sheet.title: _bounded(path, ([_value(cell) for cell in row] for row in sheet.iter_rows(values_only=True)))
            for sheet in book.worksheets
        }
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be read as a workbook: {' '.join(str(error).split())[:120]}") from error


def read_table(bench: Bench, path: str, sheet: str = "") -> Rows:
    """Read a table of an XLSX or CSV file as rows, the header first; the first sheet unless another is named."""
    return _sheet(bench.folder, path, sheet)


def list_sheets(bench: Bench, path: str) -> list[dict[str, Any]]:
    """The sheets of an XLSX file (or the one table of a CSV): name, header, number of rows."""
    made = sheets(bench.folder, path)
    return [{"sheet": name, "header": rows[:1], "rows": max(len(rows) - 1, 0)} for name, rows in made.items()]


def read_cells(bench: Bench, path: str, cells: str, sheet: str = "") -> Any:
    """Read one cell (B2) or a block of them (A1:C4) of a table file."""
    found = _CELL.fullmatch(cells.strip())
    if found is None:
        raise UsageError(f"cells {cells[:20]!r}: B2, or A1:C4")
    rows = _sheet(bench.folder, path, sheet)
    left, top = _column(found[1]), int(found[2])
    if found[3] is None:
        return _at(rows, top, left)
    right, bottom = _column(found[3]), int(found[4])
    if not (0 <= bottom - top < 1000 and 0 <= right - left < MOST_COLUMNS):
        raise UsageError(f"cells {cells}: at most 1,000 rows, from the upper left to the lower right")
    return [[_at(rows, row, column) for column in range(left, right + 1)] for row in range(top, bottom + 1)]


def query_table(bench: Bench, path: str, sql: str, more: list[str] = []) -> Rows:  # noqa: B006 - never changed
    """Ask a table file by SQL (SQLite, SELECT only): rows of values. Its first sheet is called t, every sheet is there
    by its name too, columns are named as in the header; sheets of the files in `more` are there by their file's name
    without its ending."""
    connection = sqlite3.connect(":memory:")
    try:
        made = sheets(bench.folder, path)
        for index, (name, rows) in enumerate(made.items()):
            for title in {name, "t"} if index == 0 else {name}:
                _load(connection, title, rows)
        for other in more:
            rows = next(iter(sheets(bench.folder, other).values()), [])
            _load(connection, other.rpartition("/")[2].rpartition(".")[0], rows)
        connection.commit()
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
        connection.execute("pragma query_only = on")
        connection.set_authorizer(_allowed)
        budget = iter(range(_MOST_STEPS))
        connection.set_progress_handler(lambda: next(budget, None) is None, 10_000)
        found = connection.execute(sql).fetchmany(MOST_ROWS)
    except sqlite3.Error as error:
        why = "it takes too long" if "interrupt" in str(error) else str(error)
        raise UsageError(f"query_table: {why}") from error
    finally:
        connection.close()
    return [[_round(value) for value in row] for row in found]


def _allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    # What is drawn at random, or reaches outside, is no part of a query that gives the same every time.
    known = action == sqlite3.SQLITE_FUNCTION and second not in ("load_extension", "random", "randomblob")
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY


def _load(connection: sqlite3.Connection, title: str, rows: Rows) -> None:
    if not rows:
        return
    header = [str(name) if name not in (None, "") else f"column{index + 1}" for index, name in enumerate(rows[0])]
    seen: dict[str, int] = {}
    for index, name in enumerate(header):
        seen[name.casefold()] = seen.get(name.casefold(), 0) + 1
        if seen[name.casefold()] > 1:
            header[index] = f"{name}_{seen[name.casefold()]}"
    columns = ", ".join(_quoted(name) for name in header)
    connection.execute(f"create table {_quoted(title)} ({columns})")
    marks = ", ".join("?" for _ in header)
    width = len(header)
    padded = ([*row[:width], *[None] * (width - len(row))] for row in rows[1:])
    connection.executemany(f"insert into {_quoted(title)} values ({marks})", padded)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sheet(folder: Folder, path: str, sheet: str) -> Rows:
    made = sheets(folder, path)
    if sheet and sheet not in made:
        raise UsageError(f"{path} has no sheet {sheet!r}; it has {', '.join(made)}")
    return made[sheet] if sheet else next(iter(made.values()), [])


def _at(rows: Rows, row: int, column: int) -> Any:
    inside = 0 < row <= len(rows) and column < len(rows[row - 1])
    return rows[row - 1][column] if inside else None


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1


def _bounded(path: str, rows: Iterable[list[Any]]) -> Rows:
    kept: Rows = []
    for row in rows:
        if len(kept) >= MOST_ROWS or len(row) > MOST_COLUMNS:
            raise UsageError(f"{path} is larger than {MOST_ROWS:,} rows of {MOST_COLUMNS} columns")
        kept.append(row)
    while kept and all(cell is None for cell in kept[-1]):
        kept.pop()
    return kept


def _value(cell: Any) -> Any:
    return cell if isinstance(cell, str | int | float | bool | None) else str(cell)


def _round(value: Any) -> Any:
    return round(value, 10) if isinstance(value, float) else value if not isinstance(value, bytes) else value.hex()


def _plain(cell: str) -> Any:
    text = cell.strip()
    if re.fullmatch(r"-?(0|[1-9]\d{0,14})", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d{0,14})\.\d{1,12}", text):
        return float(text)
    return text
