"""What a loop shows of itself beside its stages: curves, tables, tasks born, pairs, versions of code. Data alone.

stage report ─▶ Shown ─▶ FOLDER/report.json ─▶ `silva loop show`, the console's page of the loop

A file is read as far as it can be: an entry that is none is left out and said, and so is what goes beyond the limits,
so that a page of a loop is there whatever one entry of its report holds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from silva.lake.durable import refusals, write_whole
from silva.tree import Json, Record

FILE = "report.json"

MOST_BYTES = 64 * 1024 * 1024
"""Of a report that is read."""
MOST_ENTRIES = {"curves": 60, "tables": 60, "tasks": 5_000, "pairs": 5_000, "versions": 500}
"""Of each part; what is beyond is counted."""
MOST_POINTS = 600
"""Of a curve; of a longer one every n-th."""
MOST_ROWS = 1_000
"""Of a table."""
MOST_CHARS = 4_000
"""Of one text; of a diff `MOST_DIFF`."""
MOST_DIFF = 60_000


class Curve(Record, frozen=True, kw_only=True):
    """Series over one axis: `series` has a value (None: not known) for each of `x`, numbers or names. Series that are
    called NAME low and NAME high are the interval of NAME."""

    title: str
    x: tuple[float | str | None, ...]
    series: dict[str, tuple[float | None, ...]]


class Sheet(Record, frozen=True, kw_only=True):
    """A table; a cell is any plain value."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class Born(Record, frozen=True, kw_only=True):
    """A task that the loop made: what it asks, the `signal` that led to it, the `verdict` of its validation, the
    `parent` it came of; `more` is all else that is said of it (who wrote it, its solution, its likeness to held-out
    tasks)."""

    id: str
    words: str = ""
    signal: str = ""
    verdict: str = ""
    parent: str = ""
    more: Json = msgspec.field(default_factory=dict[str, Any])


class Preferred(Record, frozen=True, kw_only=True):
    """Two steps behind one, and which `verifier` preferred which by how much: ids of nodes, or words."""

    chosen: str
    rejected: str
    parent: str = ""
    verifier: str = ""
    gap: float | None = None
    more: Json = msgspec.field(default_factory=dict[str, Any])


class Revision(Record, frozen=True, kw_only=True):
    """A version of code: its digest, its parent's, the unified `diff` between them, what was decided, and its J."""

    digest: str
    parent: str = ""
    diff: str = ""
    verdict: str = ""
    j: float | None = None
    more: Json = msgspec.field(default_factory=dict[str, Any])


class Shown(Record, frozen=True, kw_only=True):
    """All a loop shows. `faults` says, a line each, what could not be read or was left out."""

    curves: tuple[Curve, ...] = ()
    tables: tuple[Sheet, ...] = ()
    tasks: tuple[Born, ...] = ()
    pairs: tuple[Preferred, ...] = ()
    versions: tuple[Revision, ...] = ()
    faults: tuple[str, ...] = ()

    def beside(self, other: Shown) -> Shown:
        """This, and of another what this has not: curves and tables by their titles, the other parts as a whole."""
        curves, tables = ({each.title for each in part} for part in (self.curves, self.tables))
        return Shown(
            curves=(*self.curves, *(each for each in other.curves if each.title not in curves)),
            tables=(*self.tables, *(each for each in other.tables if each.title not in tables)),
            tasks=self.tasks or other.tasks,
            pairs=self.pairs or other.pairs,
            versions=self.versions or other.versions,
            faults=(*self.faults, *other.faults),
        )


def write_shown(folder: Path, shown: Shown) -> Path:
    """Leave it in a loop's folder, whole; return its file.

    Raises:
        StoreError: the disk refused.
    """
    said = msgspec.to_builtins(shown)
    for part in MOST_ENTRIES:
        # `more` is how it is read; in the file what is said of an entry stands beside its own fields.
        said[part] = [{**each.pop("more", {}), **each} for each in said.get(part, ())]
    said.pop("faults", None)
    with refusals(f"loop {folder}"):
        write_whole(folder / FILE, json.dumps(said, ensure_ascii=False, indent=1).encode())
    return folder / FILE


def read_shown(folder: Path) -> Shown:
    """What a loop's folder shows; nothing where it has no report yet."""
    file = folder / FILE
    try:
        if file.stat().st_size > MOST_BYTES:
            return Shown(faults=(f"{FILE}: is larger than {MOST_BYTES:,} bytes and was not read",))
        said: Any = json.loads(file.read_bytes(), parse_constant=lambda _: None)
    except FileNotFoundError:
        return Shown()
    except (OSError, ValueError, RecursionError) as error:
        return Shown(faults=(f"{FILE}: cannot be read ({' '.join(str(error).split())[:200]})",))
    return shown_of(said)


def shown_of(said: Any) -> Shown:
    """A report's plain values as what is shown."""
    if not isinstance(said, dict):
        return Shown(faults=(f"{FILE}: is no object",))
    faults: list[str] = []
    return Shown(
        curves=_part(said, "curves", _curve, faults),
        tables=_part(said, "tables", _sheet, faults),
        tasks=_part(said, "tasks", lambda each: _entry(each, Born, "id"), faults),
        pairs=_part(said, "pairs", lambda each: _entry(each, Preferred, "chosen", "rejected"), faults),
        versions=_part(said, "versions", lambda each: _entry(each, Revision, "digest"), faults),
        faults=tuple(faults),
    )


T = TypeVar("T")
R = TypeVar("R", Born, Preferred, Revision)


def _part(
    said: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], T], faults: list[str]
) -> tuple[T, ...]:
    entries = said.get(name) or ()
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        faults.append(f"{FILE}: {name} is no list")
        return ()
    if len(entries) > MOST_ENTRIES[name]:
        faults.append(f"{FILE}: {len(entries) - MOST_ENTRIES[name]:,} of {len(entries):,} {name} are not shown")
    found: list[T] = []
    for number, each in enumerate(entries[: MOST_ENTRIES[name]], 1):
        try:
            found.append(read(each))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            faults.append(f"{FILE}: {name} {number} is none ({type(error).__name__}: {str(error)[:100]})")
    return tuple(found)


def _curve(each: Mapping[str, Any]) -> Curve:
    x = [value if isinstance(value, str) else number(value) for value in each["x"]]
    stride = max(1, math.ceil(len(x) / MOST_POINTS))
    series: dict[str, tuple[float | None, ...]] = {}
    for name, values in each["series"].items():
        if len(values) != len(x):
            raise ValueError(f"{name} has {len(values)} values for {len(x)} places")
        series[text(name)] = tuple(number(value) for value in values[::stride])
    return Curve(title=text(each["title"]), x=tuple(x[::stride]), series=series)


def _sheet(each: Mapping[str, Any]) -> Sheet:
    rows = [tuple(cell(value) for value in row) for row in each["rows"][:MOST_ROWS]]
    title, more = text(each["title"]), len(each["rows"]) - len(rows)
    return Sheet(
        title=f"{title} (the first {len(rows):,}, {more:,} more)" if more > 0 else title,
        columns=tuple(text(name) for name in each["columns"]),
        rows=tuple(rows),
    )


def _entry(each: Mapping[str, Any], kind: type[R], *needed: str) -> R:
    for name in needed:
        if each[name] is None:
            raise ValueError(f"{name} is null")
    own = {field for field in kind.__struct_fields__ if field != "more"}
    values: dict[str, Any] = {}
    for name in own & each.keys():
        values[name] = (
            number(each[name])
            if name in ("gap", "j")
            else text(each[name], MOST_DIFF if name == "diff" else MOST_CHARS)
        )
    return kind(**values, more={text(name): cell(value) for name, value in each.items() if name not in own})


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def cell(value: Any) -> Any:
    """What may stand in a cell: a number, yes or no, nothing, or words; anything else as JSON."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return text(value)


def text(value: Any, most: int = MOST_CHARS) -> str:
    """Words; of longer ones the beginning, and how much more there was."""
    if value is None:
        return ""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return said if len(said) <= most else f"{said[:most]}… ({len(said) - most:,} characters more)"
