"""What `--json` prints: one JSON document, whatever the figures are.

Python's own writer says `NaN` and `Infinity`, which no JSON reader takes; a number that is none is `null` here.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec


def print_json(value: Any) -> None:
    """Print a value on standard output; what JSON has no form for is said as text."""
    data = msgspec.json.encode(value, enc_hook=_plain)
    sys.stdout.write(msgspec.json.format(data, indent=2).decode() + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's; anything else as text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
