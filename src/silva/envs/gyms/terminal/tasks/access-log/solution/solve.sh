#!/bin/bash
set -e
cd /app
python3 - <<'PYTHON'
import json
import re
from collections import Counter
from pathlib import Path

LINE = re.compile(r'(\S+) .*\[\S+?:(\d\d:\d\d):\d\d .*\] "[^"]*" (\d{3}) ')
clients, minutes = Counter(), Counter()
for line in Path("access.log").read_text().splitlines():
    found = LINE.match(line)
    if found and found[3].startswith("5"):
        clients[found[1]] += 1
        minutes[found[2]] += 1


def first(counts, n):
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:n]


report = {
    "server_errors": sum(clients.values()),
    "clients": [list(pair) for pair in first(clients, 3)],
    "worst_minute": first(minutes, 1)[0][0],
}
Path("report.json").write_text(json.dumps(report))
PYTHON
