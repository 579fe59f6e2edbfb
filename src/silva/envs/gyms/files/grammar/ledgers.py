"""Quantities and facts in tables and documents: sums, cells, joins, paragraphs, invoices, slides."""

from __future__ import annotations

from random import Random
from typing import Any

from silva.envs.gyms.files.grammar.quantity import Quantity
from silva.envs.gyms.files.grammar.seeds import Theme
from silva.tree import Json

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def orders_of(random: Random, theme: Theme) -> list[list[Any]]:
    rows: list[list[Any]] = [["day", "place", "item", "pieces", "amount"]]
    for _ in range(random.randint(18, 40)):
        pieces = random.randint(1, 60)
        row = [random.choice(_DAYS), random.choice(theme.places), random.choice(theme.goods), pieces]
        rows.append([*row, round(pieces * random.randint(50, 900) / 100, 2)])
    return rows


def _table(random: Random, tag: str, rows: list[list[Any]]) -> dict[str, Json]:
    if random.random() < 0.5:
        return {f"sales{tag}.csv": {"kind": "csv", "rows": rows}}
    return {f"sales{tag}.xlsx": {"kind": "xlsx", "sheets": {"orders": rows, "notes": [["checked by"], ["nobody"]]}}}


def total(random: Random, theme: Theme, tag: str) -> Quantity:
    """A column of a table, added up where another column has a value."""
    rows = orders_of(random, theme)
    column, kind = random.choice(("pieces", "amount")), random.choice(("place", "item", "day"))
    place = rows[0].index(kind)
    chosen = random.choice(rows[1:])[place]
    value = round(sum(row[rows[0].index(column)] for row in rows[1:] if row[place] == chosen), 2)
    files = _table(random, tag, rows)
    sql = f"select round(sum({column}), 2) from t where {kind} = '{chosen}'"
    word = random.choice(
        ("the total of the column {c} for the {k} {v}", "the sum of {c} over all rows whose {k} is {v}")
    )
    return Quantity(
        pattern="total",
        words=f"{word.format(c=column, k=kind, v=chosen)} in {(path := next(iter(files)))}",
        files=files,
        calls=(("query_table", {"path": path, "sql": sql}),),
        found="@1[0][0]",
        value=value,
        sure=0.005,
    )


def cell(random: Random, theme: Theme, tag: str) -> Quantity:
    """One cell of a table."""
    rows = [["item", "stock", "minimum", "weight_kg"]]
    rows += [[g, random.randint(3, 400), random.randint(3, 90), random.randint(2, 95) / 4] for g in theme.goods]
    line, column = random.randrange(1, len(rows)), random.choice(("stock", "minimum", "weight_kg"))
    index = rows[0].index(column)
    path = f"stock{tag}.xlsx"
    return Quantity(
        pattern="cell",
        words=f"the {column.replace('_kg', ' in kg')} of {rows[line][0]} in {path}",
        files={path: {"kind": "xlsx", "sheets": {"stock": rows}}},
        calls=(("read_cells", {"path": path, "cells": f"{'ABCD'[index]}{line + 1}"}),),
        found="@1",
        value=rows[line][index],
        unit="kg" if column == "weight_kg" else "",
    )


def largest(random: Random, theme: Theme, tag: str) -> Quantity:
    """Which group of a table has the largest total: a text."""
    rows = orders_of(random, theme)
    kind, column = random.choice(("place", "item")), random.choice(("pieces", "amount"))
    sums: dict[str, float] = {}
    for row in rows[1:]:
        name = row[rows[0].index(kind)]
        sums[name] = round(sums.get(name, 0) + row[rows[0].index(column)], 2)
    best = max(sums, key=lambda name: sums[name])
    files = _table(random, tag, rows)
    path = next(iter(files))
    sql = f"select {kind} from t group by {kind} order by sum({column}) desc limit 1"
    return Quantity(
        pattern="largest",
        words=f"the {kind} with the largest total of {column} in {path}",
        files=files,
        calls=(("query_table", {"path": path, "sql": sql}),),
        found="@1[0][0]",
        value=best,
        wrong=tuple(sorted(name for name in sums if name != best)),
    )


def joined(random: Random, theme: Theme, tag: str) -> Quantity:
    """Two tables together: prices in one, pieces in the other."""
    prices = {good: random.randint(40, 990) / 20 for good in theme.goods}
    orders: list[list[Any]] = [["place", "item", "pieces"]]
    orders += [
        [random.choice(theme.places), random.choice(theme.goods), random.randint(1, 25)]
        for _ in range(random.randint(10, 22))
    ]
    place = random.choice(orders[1:])[0]
    value = round(sum(prices[item] * pieces for where, item, pieces in orders[1:] if where == place), 2)
    one, other = f"orders{tag}.csv", f"prices{tag}.xlsx"
    sql = (
        f"select round(sum(t.pieces * p.price), 2) from t join prices{tag} p on p.item = t.item"
        f" where t.place = '{place}'"
    )
    return Quantity(
        pattern="joined",
        words=f"the worth of all orders from {place} (pieces in {one}, prices in {other})",
        files={
            one: {"kind": "csv", "rows": orders},
            other: {"kind": "xlsx", "sheets": {"prices": [["item", "price"], *([k, v] for k, v in prices.items())]}},
        },
        calls=(("query_table", {"path": one, "sql": sql, "more": [other]}),),
        found="@1[0][0]",
        value=value,
        sure=0.005,
    )


def paragraph(random: Random, theme: Theme, tag: str) -> Quantity:
    """A number in a paragraph of a DOCX report."""
    place, good = random.choice(theme.places), random.choice(theme.goods)
    weights = {name: random.randint(20, 990) for name in theme.places}
    blocks: list[Json] = [{"heading": f"Report of {theme.trade}"}]
    for name in theme.places:
        blocks.append({"heading": name, "level": 2})
        who = random.choice(theme.people)
        blocks.append({"text": f"The store in {name} is looked after by {who} since spring."})
        blocks.append({"text": f"In the store in {name} lie {weights[name]} {theme.unit} of {good}."})
    path = f"report{tag}.docx"
    return Quantity(
        pattern="paragraph",
        words=f"the weight of the {good} in the store in {place}, in {theme.unit}, as {path} has it",
        files={path: {"kind": "docx", "blocks": blocks}},
        calls=(("find_text", {"path": path, "pattern": f"In the store in {place} lie"}),),
        found="numbers(@1[0]['line'])[0]",
        value=weights[place],
        unit=theme.unit,
    )


def keeper(random: Random, theme: Theme, tag: str) -> Quantity:
    """Who is named in a paragraph of a DOCX or in a PDF: a text."""
    places = list(theme.places)
    random.shuffle(places)
    people = dict(zip(places, random.sample(theme.people, len(theme.people)), strict=False))
    place = places[0]
    lines = [f"{people[name]} looks after the branch in {name}." for name in places if name in people]
    random.shuffle(lines)
    if random.random() < 0.5:
        path, spec = f"duties{tag}.pdf", {"kind": "pdf", "pages": [["Duties", "", *lines[:2]], lines[2:]]}
    else:
        path = f"duties{tag}.docx"
        spec = {"kind": "docx", "blocks": [{"heading": "Duties"}, *({"text": line} for line in lines)]}
    return Quantity(
        pattern="keeper",
        words=f"the person who looks after the branch in {place}, according to {path}",
        files={path: spec},
        calls=(("find_text", {"path": path, "pattern": f"branch in {place}."}),),
        found="@1[0]['line']",
        value=people[place],
        wrong=tuple(sorted(name for name in people.values() if name != people[place])),
    )


def invoice(random: Random, theme: Theme, tag: str) -> Quantity:
    """The sum of an invoice in a PDF, which the invoice does not say."""
    goods = random.sample(theme.goods, 4)
    lines = [(good, random.randint(2, 30), random.randint(100, 2000) / 100) for good in goods]
    value = round(sum(pieces * price for _, pieces, price in lines), 2)
    page = [
        f"Invoice to {random.choice(theme.people)}, {random.choice(theme.places)}",
        "",
        *(f"{good}: {pieces} pieces at {price:.2f} EUR each" for good, pieces, price in lines),
        "",
        "Payable within 30 days.",
    ]
    path = f"invoice{tag}.pdf"
    return Quantity(
        pattern="invoice",
        words=f"the sum of all items of {path} in EUR",
        files={path: {"kind": "pdf", "pages": [page]}},
        calls=(
            ("find_text", {"path": path, "pattern": "pieces at"}),
            ("calculate", {"expression": "sum([numbers(l['line'])[0] * numbers(l['line'])[1] for l in @1])"}),
        ),
        found="@2",
        value=value,
        sure=0.005,
    )


def slides(random: Random, theme: Theme, tag: str) -> Quantity:
    """A number in a table on a slide, or in the speaker's notes."""
    rows = [["quarter", *theme.places[:3]]]
    rows += [[f"Q{quarter}", *(random.randint(20, 980) for _ in range(3))] for quarter in range(1, 5)]
    note = random.randint(15, 400)
    path = f"talk{tag}.pptx"
    made = [
        {"title": f"A year of {theme.trade}", "lines": [f"{random.choice(theme.people)} presents"]},
        {"title": "Visitors by quarter", "rows": rows},
        {"title": "Outlook", "lines": ["more of the same"], "notes": f"Say that {note} members have joined."},
    ]
    if random.random() < 0.4:
        return Quantity(
            pattern="notes",
            words=f"the number of members who have joined, which the speaker's notes of {path} tell",
            files={path: {"kind": "pptx", "slides": made}},
            calls=(("read_slides", {"path": path, "number": 3}),),
            found="numbers(@1[0]['notes'])[0]",
            value=note,
        )
    place = random.choice(theme.places[:3])
    column = rows[0].index(place)
    return Quantity(
        pattern="slides",
        words=f"the number of visitors of {place} over all four quarters, from the table in {path}",
        files={path: {"kind": "pptx", "slides": made}},
        calls=(
            ("document_table", {"path": path, "number": 1}),
            ("calculate", {"expression": f"sum([row[{column}] for row in @1[1:]])"}),
        ),
        found="@2",
        value=sum(int(row[column]) for row in rows[1:]),
    )


def minutes(random: Random, theme: Theme, tag: str) -> Quantity:
    """A column of a table in a DOCX, added up."""
    rows = [["item", "ordered", "delivered"]]
    rows += [[good, (n := random.randint(10, 90)), n - random.randint(0, 9)] for good in theme.goods]
    column = random.choice(("ordered", "delivered"))
    index = rows[0].index(column)
    path = f"minutes{tag}.docx"
    blocks = [{"heading": "Minutes"}, {"text": f"Present: {', '.join(theme.people[:3])}."}, {"rows": rows}]
    return Quantity(
        pattern="minutes",
        words=f"the number of pieces {column} in all, from the table in {path}",
        files={path: {"kind": "docx", "blocks": blocks}},
        calls=(
            ("document_table", {"path": path}),
            ("calculate", {"expression": f"sum([row[{index}] for row in @1[1:]])"}),
        ),
        found="@2",
        value=sum(int(row[index]) for row in rows[1:]),
    )
