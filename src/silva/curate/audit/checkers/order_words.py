"""Words that speak to the model instead of to people: signs with weights, summed into one score.

Each sign is a pattern, what it is, and how much it weighs; a text's score is `1 - prod(1 - weight)` over the different
signs in it, so that one weak sign is no finding and several are. `spread` gives the stretch they cover.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LONGEST = 1 << 18
"""Characters of a text that signs are looked for in; behind it the last so many, too."""


class Sign(NamedTuple):
    """One sign; `data`: only in what tools and pages say, for a user may say it by right. Every match holds one of its
    `hints` (in small letters; none: nothing is known)."""

    name: str
    weight: float
    pattern: re.Pattern[str]
    data: bool = False
    hints: tuple[str, ...] = ()


class Seen(NamedTuple):
    """What signs say of a text: the score, the stretch of the first and heaviest, and which they were."""

    score: float
    start: int
    stop: int
    names: tuple[str, ...]


def read_signs(name: str) -> tuple[Sign, ...]:
    """The signs of a file beside this one: `[[sign]]` with `name`, `weight`, `pattern` (in any letter case), `data`."""
    told = tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return tuple(
        Sign(each["name"], each["weight"], re.compile(each["pattern"], re.I), each.get("data", False), _hints(each))
        for each in told["sign"]
    )


def _hints(told: dict[str, str]) -> tuple[str, ...]:
    return tuple(told["hints"].split("|")) if "hints" in told else ()


def seen(text: str, signs: Sequence[Sign]) -> Seen | None:
    """What signs say of a text; None where there is none of them."""
    if len(text) > 2 * LONGEST:
        head, tail = seen(text[:LONGEST], signs), seen(text[-LONGEST:], signs)
        if tail is not None and (head is None or tail.score > head.score):
            moved = len(text) - LONGEST
            return tail._replace(start=tail.start + moved, stop=tail.stop + moved)
        return head
    left, best = 1.0, None
    names: list[str] = []
    lower = text.lower()
    for name, weight, pattern, _, hints in signs:
        if hints and not any(hint in lower for hint in hints):
            continue
        match = pattern.search(text)
        if match is None:
            continue
        left *= 1 - weight
        names.append(name)
        if best is None or weight > best[0]:
            best = weight, match.start(), match.end()
    return None if best is None else Seen(round(1 - left, 4), best[1], best[2], tuple(names))
