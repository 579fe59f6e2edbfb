"""Compare both files, line by line."""

import sys
from pathlib import Path

CLEAN = """\
order,date,region,amount
1001,2026-03-05,North,1204.50
1002,2026-03-05,South,88.00
1003,2026-03-06,North,15.25
1004,2026-03-07,East,2000.00
1006,2026-03-08,West,140.10
1007,2026-03-09,East,0.90
1008,2026-03-10,South,-20.00
1009,2026-03-11,North,3500.75
1010,2026-04-12,West,60.40
"""
TOTALS = """\
region,amount
East,2000.90
North,4720.50
South,68.00
West,200.50
"""
for name, wanted in (("clean.csv", CLEAN), ("totals.csv", TOTALS)):
    try:
        lines = [line.rstrip() for line in Path("/app", name).read_text().strip().splitlines()]
    except OSError as error:
        sys.exit(f"{name}: {error}")
    if lines != wanted.splitlines():
        sys.exit(f"{name} holds {lines}")
