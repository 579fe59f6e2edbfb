"""Compare the answers."""

import json
import sys
from pathlib import Path

WANTED = {"buyer": "Fenwick Papers", "due": "2026-09-14", "penalty_45_days": 6.0, "seal": "FP-20931"}

try:
    answers = json.loads(Path("/app/answers.json").read_text())
except (OSError, ValueError) as error:
    sys.exit(f"answers.json: {error}")
if answers != WANTED:
    sys.exit(f"answers.json holds {answers}")
