"""Rows to rows: fewer of them, in another order, without what must not be there; and what rows are like."""

from __future__ import annotations

import re
from collections import Counter
from statistics import fmean, median
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from silva.elf.artefact import Figures, Rows
from silva.elf.flat import flat, meeting
from silva.elf.tool import Cost, tool
from silva.errors import UsageError
from silva.redact import redactor
from silva.tree import Json, Node, digest

_SPACE = re.compile(r"[\W_]+")


@tool(
    asks=("duplicate", "remove duplicate", "unique", "unique row", "drop repeat", "same twice"),
    cost=Cost(seconds=0.5, row_seconds=0.0001),
    examples=({"inputs": {"rows": [{"text": "One."}, {"text": "one"}]}, "settings": {"loose": True}, "count": 1},),
)
def deduplicate(
    rows: Rows,
    loose: Annotated[bool, Meta(description="case, spaces and punctuation make no difference")] = False,
) -> Rows:
    """Keep of rows that say the same, by the same author, the first."""
    seen: set[str] = set()
    kept = []
    for row in rows.rows:
        key = digest("loose", _SPACE.sub(" ", row.text).strip().lower()) if loose else row.content
        if key not in seen:
            seen.add(key)
            kept.append(row)
    return Rows(rows=tuple(kept), notes=(*rows.notes, f"{len(rows) - len(kept)} of {len(rows)} rows were duplicates"))


@tool(
    asks=("filter", "keep where", "filter row", "only keep", "remove where"),
    cost=Cost(seconds=0.5, row_seconds=0.0001),
    examples=(
        {"inputs": {"rows": [{"text": "a"}, {"text": "long enough"}]}, "settings": {"where": "chars > 3"}, "count": 1},
    ),
)
def filter_rows(
    rows: Rows,
    where: Annotated[
        str,
        Meta(
            min_length=1,
            description="DuckDB's SQL over prompt, reply, text, chars, words, turns, label, score, … and the "
            "source's fields",
        ),
    ],
) -> Rows:
    """Keep the rows that meet a condition."""
    kept = [rows.rows[place] for place in meeting(where, [flat(row) for row in rows.rows])] if rows.rows else []
    note = f"{len(kept)} of {len(rows)} rows meet {where}"
    return Rows(rows=tuple(kept), notes=(*rows.notes, note))


@tool(
    asks=("sample", "random", "random row", "sample row", "draw row", "first row", "take row", "limit"),
    examples=({"inputs": {"rows": [{"text": "a"}, {"text": "b"}]}, "settings": {"count": 1}, "count": 1},),
)
def take_rows(
    rows: Rows,
    count: Annotated[int, Meta(ge=1, description="how many rows at most")],
    how: Annotated[Literal["first", "random"], Meta(description="the first ones, or drawn")] = "first",
    seed: int = 0,
) -> Rows:
    """Take some rows: the first, or drawn by a seed."""
    chosen = rows.rows
    if how == "random":
        chosen = tuple(sorted(chosen, key=lambda row: digest("take", str(seed), row.id)))
    return Rows(rows=chosen[:count], notes=rows.notes)


@tool(
    asks=("sort", "order by", "longest", "shortest", "sort row", "rank by"),
    examples=({"inputs": {"rows": [{"text": "aa"}, {"text": "b"}]}, "settings": {"by": "chars"}, "count": 2},),
)
def sort_rows(
    rows: Rows,
    by: Annotated[str, Meta(min_length=1, description="a column: chars, words, turns, score, label …")],
    descending: bool = True,
) -> Rows:
    """Order rows by a column; those without a value come last."""
    flats = [flat(row) for row in rows.rows]
    if flats and not any(by in each for each in flats):
        raise UsageError(f"sort-rows: no row has a column {by!r}; there are {', '.join(flats[0])}")
    known = [place for place, each in enumerate(flats) if each.get(by) is not None]
    numbers = all(isinstance(flats[place][by], int | float) for place in known)
    known.sort(key=lambda place: flats[place][by] if numbers else str(flats[place][by]), reverse=descending)
    rest = [place for place in range(len(flats)) if flats[place].get(by) is None]
    return Rows(rows=tuple(rows.rows[place] for place in known + rest), notes=rows.notes)


@tool(
    asks=(
        "redact secret",
        "redact",
        "mask secret",
        "remove secret",
        "strip secret",
        "hide secret",
        "remove key",
        "redact key",
    ),
    cost=Cost(seconds=0.5, row_seconds=0.0005),
    examples=({"inputs": {"rows": [{"text": "key sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}, "settings": {}, "count": 1},),
)
def redact_secrets(rows: Rows) -> Rows:
    """Put marks in the place of keys, tokens and passwords in every turn."""
    changed = 0

    def clean(walk: tuple[Node, ...]) -> tuple[Node, ...]:
        made: list[Node] = []
        for node in walk:
            message = redactor().message(node.message)
            # Exact ids would say the secret still.
            made.append(
                node if message is node.message else msgspec.structs.replace(node, message=message, tokens=None)
            )
        return tuple(made)

    made = []
    for row in rows.rows:
        after = msgspec.structs.replace(row, nodes=clean(row.nodes), rejected=clean(row.rejected))
        changed += after.content != row.content
        made.append(after)
    return Rows(rows=tuple(made), notes=(*rows.notes, f"secrets were taken out of {changed} of {len(rows)} rows"))


@tool(
    asks=(
        "describe",
        "statistics",
        "summary of row",
        "profile",
        "how long",
        "length distribution",
        "overview of file",
        "what look like",
    ),
    cost=Cost(seconds=0.5, row_seconds=0.0001),
    examples=({"inputs": {"rows": [{"text": "a b"}]}, "settings": {}},),
)
def describe_rows(rows: Rows) -> Figures:
    """What rows are like: how many of which kind, how long, which labels and fields."""
    flats = [flat(row) for row in rows.rows]
    figures: Json = {"rows": len(flats), "distinct": len({row.content for row in rows.rows})}
    for name in ("chars", "words", "turns"):
        values = [each[name] for each in flats]
        if values:
            figures |= {f"{name}, mean": round(fmean(values), 2), f"{name}, median": median(values)}
            figures |= {f"{name}, least": min(values), f"{name}, most": max(values)}
    for name in ("kind", "label", "env", "success"):
        counted = Counter(str(each[name]) for each in flats if each.get(name) is not None)
        if counted:
            figures[name] = [{name: value, "rows": count} for value, count in counted.most_common(20)]
    fields = Counter(name for row in rows.rows for name in row.data)
    if fields:
        figures["fields"] = [{"field": name, "rows": count} for name, count in fields.most_common(20)]
    return Figures(figures=figures, notes=rows.notes)


@tool(
    asks=("row both", "both file", "in both", "same row two", "overlap", "common row", "contaminate", "contamination"),
    cost=Cost(seconds=0.5, row_seconds=0.0001),
    examples=(
        {"inputs": {"rows": [{"text": "a"}, {"text": "b"}], "against": [{"text": "b"}]}, "settings": {}, "count": 1},
    ),
)
def overlap(rows: Rows, against: Rows) -> Rows:
    """The rows that other rows hold too, word for word: what two files or runs have in common."""
    other = {row.content for row in against.rows}
    kept = tuple(row for row in rows.rows if row.content in other)
    return Rows(rows=kept, notes=(f"{len(kept)} of {len(rows)} rows are in the other {len(against)} too",))
