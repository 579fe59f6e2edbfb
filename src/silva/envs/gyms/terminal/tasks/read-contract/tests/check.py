"""Compare the answers."""

import json
import sys
from pathlib import Path

WANTED = {"buyer": "Fenwick Papers", "due": "2026-09-14", "penalty_45_days": 6.0, "seal": "FP-20931"}

try:
    answers = json.loads(Path("/app/answers.json").read_text())
except (OSError, ValueError) as error:
    sys.exit(f"answers.json: {error}")


def meant(value):
    """Words by their letters, numbers by their value, also where they were written as text with a percent sign."""
    if isinstance(value, str):
        words = " ".join(value.split()).casefold()
        try:
            return float(words.removesuffix("%"))
        except ValueError:
            return words
    return value if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


if not isinstance(answers, dict) or {name: meant(value) for name, value in answers.items()} != {
    name: meant(value) for name, value in WANTED.items()
}:
    sys.exit(f"answers.json holds {answers}")
