#!/bin/bash
set -e
cd /app
python3 - <<'PYTHON'
import csv
from collections import defaultdict
from decimal import Decimal, InvalidOperation

rows, seen = [], set()
with open("orders.csv", newline="") as file:
    for row in csv.DictReader(file):
        try:
            amount = Decimal(row["amount"].replace(",", ""))
        except InvalidOperation:
            continue
        if row["order"] in seen:
            continue
        seen.add(row["order"])
        date = row["date"]
        if "/" in date:
            day, month, year = date.split("/")
            date = f"{year}-{month}-{day}"
        rows.append([row["order"], date, row["region"].strip().capitalize(), f"{amount:.2f}"])
rows.sort(key=lambda row: (row[1], row[0]))
totals = defaultdict(Decimal)
for row in rows:
    totals[row[2]] += Decimal(row[3])
with open("clean.csv", "w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows([["order", "date", "region", "amount"], *rows])
with open("totals.csv", "w", newline="") as file:
    lines = [[region, f"{total:.2f}"] for region, total in sorted(totals.items())]
    csv.writer(file, lineterminator="\n").writerows([["region", "amount"], *lines])
PYTHON
