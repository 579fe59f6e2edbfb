"""Compare the totals, and see that nothing else was left."""

import json
import sys
from pathlib import Path

WANTED = {"blue": 358, "green": 283, "red": 394}

try:
    totals = json.loads(Path("/app/totals.json").read_text())
except (OSError, ValueError) as error:
    sys.exit(f"totals.json: {error}")
left = {path.name for path in Path("/app").iterdir()} - {"server.py", "totals.json", "__pycache__"}
if totals != WANTED or left:
    sys.exit(f"totals.json holds {totals}; besides it there is {left or 'nothing'}")
