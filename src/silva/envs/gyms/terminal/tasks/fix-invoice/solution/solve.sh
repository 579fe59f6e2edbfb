#!/bin/bash
set -e
cd /app
python3 - <<'PYTHON'
from pathlib import Path

path = Path("invoice.py")
text = path.read_text()
text = text.replace("ROUND_HALF_EVEN", "ROUND_HALF_UP")
text = text.replace('        taxed = rounded(price * (1 + TAX))\n', '        left = price * (100 - Decimal(row["discount"])) / 100\n')
text = text.replace('        amount += taxed - rounded(price * Decimal(row["discount"]) / 100)\n', "        amount += rounded(left * (1 + TAX))\n")
text = text.replace("total(rows[1:])", "total(rows)")
path.write_text(text)
PYTHON
python3 invoice.py example.csv
