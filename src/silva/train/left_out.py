"""What dropped out of a file or a training, as the lines a person is told: the first few by name, the rest counted."""

from __future__ import annotations

from collections.abc import Sequence


def left_out(dropped: Sequence[str], most: int = 3) -> str:
    """Lines that name what dropped out and why, the first `most` of it; "" where nothing did."""
    lines = [f"left out: {line}\n" for line in dropped[:most]]
    return "".join([*lines, f"left out: {len(dropped) - most} more\n"] if len(dropped) > most else lines)
