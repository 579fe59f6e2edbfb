"""Run invoice.py on invoices it has not seen."""

import random
import subprocess
import sys
import tempfile
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path


def expected(rows):
    lines = [Decimal(p) * q * (100 - d) / 100 * Decimal("1.19") for p, q, d in rows]
    return sum((line.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP) for line in lines), Decimal("0.00"))


def printed(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "invoice.csv")
        lines = [f"item{n},{p},{q},{d}" for n, (p, q, d) in enumerate(rows)]
        path.write_text("item,price,quantity,discount\n" + "\n".join(lines) + "\n")
        done = subprocess.run(
            [sys.executable, "/app/invoice.py", str(path)], capture_output=True, text=True, timeout=20
        )
    return done.stdout.strip()


draw = random.Random(7)
cases = [[("0.50", 1, 0)], [("4.50", 10, 0), ("39.90", 2, 10), ("0.95", 25, 5), ("0.50", 1, 0)]]
for _ in range(20):
    cases.append(
        [
            (f"{draw.randint(1, 9999) / 100:.2f}", draw.randint(1, 30), draw.choice([0, 5, 10, 25]))
            for _ in range(draw.randint(1, 6))
        ]
    )
for case in cases:
    wanted, got = expected(case), printed(case)
    try:
        right = Decimal(got) == wanted
    except ArithmeticError:
        right = False
    if not right:
        sys.exit(f"for {case} it printed {got!r}, not {wanted}")
