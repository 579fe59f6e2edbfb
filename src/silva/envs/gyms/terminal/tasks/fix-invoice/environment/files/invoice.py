"""Print the total of an invoice: python3 invoice.py FILE."""

import csv
import sys
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

TAX = Decimal("0.19")
CENT = Decimal("0.01")


def rounded(amount):
    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)


def total(rows):
    """The total in euros, tax included."""
    amount = Decimal(0)
    for row in rows:
        price = Decimal(row["price"]) * int(row["quantity"])
        taxed = rounded(price * (1 + TAX))
        amount += taxed - rounded(price * Decimal(row["discount"]) / 100)
    return amount


def main():
    with Path(sys.argv[1]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    print(total(rows[1:]))


if __name__ == "__main__":
    main()
