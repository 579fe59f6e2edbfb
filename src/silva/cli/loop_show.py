"""`silva loop show` in words: stages, curves as tables, tasks born, pairs, versions with their diffs.

What environments, models and evolved code wrote is shown as text: nothing in it is markup or an order to the terminal.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from silva.cli.trees_show import console, plain
from silva.loops.kernel.shown import Born, Curve, Revision, Sheet, Shown
from silva.tree.actions import visible

T = TypeVar("T")

PLACES = 12
"""Points of a curve, rows of a table, tasks and pairs that are printed unless all are asked for."""
LINES = 40
"""Lines of a diff that are printed unless all are asked for."""
WIDEST = 60
"""Characters of a cell."""


def print_stages(rows: Sequence[dict[str, Any]], last: float) -> None:
    """A line for each stage, and when the ledger was last written (Unix seconds)."""
    for row in rows:
        more = row["note"] or row["progress"] or row["words"]
        line = f"{row['state']:<8} {row['seconds']:>7.1f} s  {row['name']}{f': {more}' if more else ''}"
        sys.stdout.write(f"{visible(line)}\n")
    if last:
        sys.stdout.write(f"last written {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(last))}\n")


def print_shown(found: Shown, every: bool) -> None:
    """All else it shows; with `every`, each point, task and line."""
    out = console()
    for curve in found.curves:
        _titled(out, curve.title, _curve(curve, every), len(curve.x), every)
    for sheet in found.tables:
        _titled(out, sheet.title, _sheet(sheet, every), len(sheet.rows), every)
    if found.tasks:
        counts = Counter(f"{each.signal or 'no signal'}, {each.verdict or 'no verdict'}" for each in found.tasks)
        out.print(plain(f"\ntasks born: {len(found.tasks):,} ({_counts(counts)})"), style="bold")
        _cut(out, _tasks(_some(found.tasks, every)), len(found.tasks), every)
    if found.pairs:
        counts = Counter(each.verifier or "nobody named" for each in found.pairs)
        out.print(plain(f"\npairs: {len(found.pairs):,} (by {_counts(counts)})"), style="bold")
        table = _table("behind", "chosen", "rejected", "verifier", "gap")
        for each in _some(found.pairs, every):
            table.add_row(*map(_cell, (each.parent, each.chosen, each.rejected, each.verifier, each.gap)))
        _cut(out, table, len(found.pairs), every)
    for each in found.versions:
        _version(out, each, every)
    for fault in found.faults:
        out.print(plain(f"not shown: {fault}"), style="yellow")


def _titled(out: Console, title: str, table: Table, count: int, every: bool) -> None:
    out.print(plain(f"\n{title}"), style="bold")
    _cut(out, table, count, every)


def _cut(out: Console, table: RenderableType, count: int, every: bool) -> None:
    out.print(table)
    if not every and count > PLACES:
        out.print(f"{PLACES} of {count:,}; --all prints every one", style="dim")


def _curve(curve: Curve, every: bool) -> Table:
    table = _table("", *curve.series)
    places = list(range(len(curve.x)))
    if not every and len(places) > PLACES:  # spread over all, the first and the last among them
        places = sorted({round(i * (len(places) - 1) / (PLACES - 1)) for i in range(PLACES)})
    for place in places:
        table.add_row(_cell(curve.x[place]), *(_cell(values[place]) for values in curve.series.values()))
    return table


def _sheet(sheet: Sheet, every: bool) -> Table:
    table = _table(*sheet.columns)
    for row in _some(sheet.rows, every):
        table.add_row(*map(_cell, row))
    return table


def _tasks(tasks: Iterable[Born]) -> Table:
    table = _table("task", "asks", "signal", "verdict", "came of", "more")
    for each in tasks:
        more = ", ".join(f"{name} {value}" for name, value in each.more.items() if value not in (None, ""))
        table.add_row(*map(_cell, (each.id, each.words, each.signal, each.verdict, each.parent, more)))
    return table


def _version(out: Console, each: Revision, every: bool) -> None:
    j = f", J {each.j:.4f}" if each.j is not None else ""
    of = f" from {each.parent[:12]}" if each.parent else ""
    out.print(plain(f"\nversion {each.digest[:12]}{of}: {each.verdict or 'no verdict'}{j}"), style="bold")
    lines = each.diff.splitlines()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines if every else lines[:LINES]:
        out.print(plain(line), style=colours.get(line[:1], ""))
    if not every and len(lines) > LINES:
        out.print(f"{len(lines) - LINES:,} lines more; --all prints every one", style="dim")


def _table(*columns: str) -> Table:
    table = Table(box=None)
    for each in columns:
        table.add_column(_cell(each))
    return table


def _some(every_one: Sequence[T], every: bool) -> Sequence[T]:
    return every_one if every else every_one[:PLACES]


def _counts(counts: Counter[str]) -> str:
    return "; ".join(f"{name}: {count:,}" for name, count in counts.most_common(8))


def _cell(value: Any) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if value is None:
        return Text("–")
    if isinstance(value, float):
        said = f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    else:
        said = " ".join(str(value).split())
    return plain(said if len(said) <= WIDEST else f"{said[: WIDEST - 1]}…")
