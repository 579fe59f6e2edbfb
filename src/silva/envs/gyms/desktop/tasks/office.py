"""Tasks in Calc and Writer."""

from __future__ import annotations

from collections.abc import Sequence

from silva.envs.gyms.desktop.applications import calc, writer
from silva.envs.gyms.desktop.moves import click, keys, pause, seen, window, write
from silva.envs.gyms.desktop.task import DesktopTask, Evidence
from silva.envs.gyms.desktop.tasks import papers
from silva.tree import Json

_SALES = [("Month", "Amount"), *zip(("January", "February", "March", "April", "May", "June"),
                                    (812, 1170, 964, 1055, 731, 1288), strict=True), ("Total", None)]  # fmt: skip
_PRICES = [("Board", "Price"), ("Ash", 9.5), ("Beech", 8.25), ("Maple", 41.8), ("Oak", 13.9), ("Walnut", 21.4)]
_LETTER = (
    "Dear Ms Egger,",
    "thank you for your order from Northwind. Northwind delivers on Tuesday.",
    "Should anything be missing, write to Northwind, not to the carrier.",
    "Yours sincerely",
)
_REPORT = (
    "Water of the mill pond",
    "Samples were taken in May and in June.",
    "Results",
    "The water is clear, and warmer than last year.",
)


def cells(document: Json | None, sheet: str) -> dict[str, Json]:
    """The cells of a sheet by place; none where there is no such sheet."""
    return (document or {}).get("sheets", {}).get(sheet, {})


def expected(rows: Sequence[tuple[str, float | str | None]]) -> dict[str, object]:
    """What the places of a sheet of two columns hold."""
    placed = {
        f"{letter}{row}": value for row, pair in enumerate(rows, 1) for letter, value in zip("AB", pair, strict=True)
    }
    return {place: value for place, value in placed.items() if value is not None}


async def _total(evidence: Evidence) -> bool:
    found = dict(cells(await evidence.document("sales.xlsx"), "Sales"))
    sum_cell = found.pop("B8", {})
    same = {place: cell["value"] for place, cell in found.items()} == expected(_SALES)
    return same and sum_cell.get("value") == 6020 and bool(sum_cell.get("formula"))


async def _price(evidence: Evidence) -> bool:
    found = {place: cell["value"] for place, cell in cells(await evidence.document("prices.ods"), "Boards").items()}
    return found == expected([("Maple", 14.8) if row[0] == "Maple" else row for row in _PRICES])


async def _renamed(evidence: Evidence) -> bool:
    blocks = ((await evidence.document("letter.odt")) or {}).get("blocks", [])
    return [block["text"] for block in blocks] == [line.replace("Northwind", "Tessera") for line in _LETTER]


async def _headed(evidence: Evidence) -> bool:
    blocks = ((await evidence.document("report.odt")) or {}).get("blocks", [])
    return [(block["level"], block["text"]) for block in blocks] == list(zip((1, 0, 2, 0), _REPORT, strict=True))


OFFICE = (
    DesktopTask(
        name="calc-total",
        wish="sales.xlsx is open in Calc. Put the sum of the amounts into B8, as a formula, and save the file in the "
        "format it has.",
        tags=("calc",),
        files=lambda: {"sales.xlsx": papers.workbook(_SALES, "Sales")},
        launches=(calc("sales.xlsx"),),
        moves=(
            click(seen("table-cell", text="Total"), aside=(77, 0)),  # one column to the right
            write("=SUM(B2:B7)\n"),
            keys("ctrl", "s", when=seen("table-cell", text="6020")),
            click(seen("push-button", "Use Excel")),
            pause(1.0, when=window("sales.xlsx")),
        ),
        done=_total,
    ),
    DesktopTask(
        name="calc-price",
        wish="In prices.ods, which is open in Calc, the price of maple is wrong: it is 14.80. Correct it, change "
        "nothing else, and save.",
        tags=("calc",),
        files=lambda: {"prices.ods": papers.spreadsheet(_PRICES, "Boards")},
        launches=(calc("prices.ods"),),
        moves=(
            click(seen("table-cell", text="41.8"), when=seen("table-cell", text="Maple")),
            write("14.80\n"),
            keys("ctrl", "s", when=seen("table-cell", text="14.8")),
            pause(1.0, when=window("prices.ods")),
        ),
        done=_price,
    ),
    DesktopTask(
        name="writer-name",
        wish="letter.odt is open in Writer. The firm is now called Tessera: replace Northwind everywhere in the "
        "letter, and save it.",
        tags=("writer",),
        files=lambda: {"letter.odt": papers.text(_LETTER)},
        launches=(writer("letter.odt"),),
        moves=(
            keys("ctrl", "h", when=seen("paragraph", text="Northwind")),
            write("Northwind", when=window("Find and Replace")),
            click(seen("label", "Replace:"), aside=(200, 0)),
            write("Tessera"),
            click(seen("push-button", "Replace All")),
            click(seen("push-button", "Close", window="Find and Replace"), when=seen("paragraph", text="from Tessera")),
            keys("ctrl", "s", when=window("letter.odt")),
            pause(1.0, when=window("letter.odt")),
        ),
        done=_renamed,
    ),
    DesktopTask(
        name="writer-heading",
        wish="report.odt is open in Writer. Make its first line a heading of level 1 (the paragraph style Heading 1) "
        "and the line Results one of level 2, and save it.",
        tags=("writer",),
        files=lambda: {"report.odt": papers.text(_REPORT)},
        launches=(writer("report.odt"),),
        moves=(
            keys("ctrl", "home", when=seen("paragraph", text="mill pond")),
            keys("ctrl", "1"),
            keys("down"),
            keys("down"),
            keys("ctrl", "2"),
            keys("ctrl", "s", when=seen("heading", text="Results")),
            pause(1.0, when=window("report.odt")),
        ),
        done=_headed,
    ),
)
