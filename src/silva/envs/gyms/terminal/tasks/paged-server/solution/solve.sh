#!/bin/bash
set -e
cd /app
python3 server.py > /tmp/server.log 2>&1 &
server=$!
trap 'kill $server' EXIT
until grep -q listening /tmp/server.log; do sleep 0.1; done
python3 - <<'PYTHON'
import json
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

totals, after = Counter(), 0
while after is not None:
    with urlopen(f"http://127.0.0.1:8099/items?after={after}") as reply:
        page = json.load(reply)
    for item in page["items"]:
        totals[item["colour"]] += item["quantity"]
    after = page["after"]
Path("totals.json").write_text(json.dumps(dict(sorted(totals.items()))))
PYTHON
