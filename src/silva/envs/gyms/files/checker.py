"""Whether a task was done: its answer by tokens, the files it was to leave by what is in them.

    check = {"answer": {"all": [["42", "forty-two"]], "none": ["43"]}, "files": [{"path": "out.csv", "rows": [...]}]}

AnsAcc as GTA means it, with its holes closed: every item of `all` must occur (one of its alternatives, as whole tokens
in a row: "1" is not in "12"), none of `none` may. Numbers are tokens by value ("1,200.50" is 1200.5); `tolerance` says
how far off they may be, `numbers` how many different ones an answer may name: to name them all is no answer. A task
without an answer to be checked is not counted among those that have one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

Token = str | float

_TOKEN = re.compile(r"(?<![\w.,])[-+−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,])[-+−]?\d+(?:\.\d+)?|[^\W_]+")
MOST_TOKENS = 40
"""An answer of more tokens than this (and no `most` of its own) hedges: it does not count."""


def tokens(text: str) -> list[Token]:
    """Words in lower case and numbers by value, in their order; marks and currency signs are none."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("−", "-")
    found: list[Token] = []
    for match in _TOKEN.findall(plain):
        number = _number(match)
        found.append(match if number is None else number)
    return found


def occurs(phrase: Sequence[Token], text: Sequence[Token], tolerance: float = 0.0) -> bool:
    """Whether the tokens stand in the text in a row."""
    if not phrase:
        return False
    return any(
        all(_same(wanted, given, tolerance) for wanted, given in zip(phrase, text[start:], strict=False))
        for start in range(len(text) - len(phrase) + 1)
    )


def answered(answer: str, check: Mapping[str, Any]) -> bool:
    """Whether an answer holds all that it must and nothing that it must not."""
    said = tokens(answer)
    tolerance = float(check.get("tolerance", 0.0))
    if len(said) > int(check.get("most", MOST_TOKENS)):
        return False
    if "numbers" in check and len({each for each in said if isinstance(each, float)}) > int(check["numbers"]):
        return False
    if any(occurs(tokens(str(wrong)), said, tolerance) for wrong in check.get("none") or ()):
        return False
    items = check.get("all") or ()
    return bool(items) and all(
        any(occurs(tokens(str(each)), said, tolerance) for each in ([item] if isinstance(item, str) else item))
        for item in items
    )


def overlap(called: Sequence[str], reference: Sequence[str]) -> int:
    """How many of the reference's tools were called in its order: the longest common subsequence of the two."""
    row = [0] * (len(called) + 1)
    for wanted in reference:
        before = 0
        for index, given in enumerate(called):
            kept = row[index + 1]
            row[index + 1] = before + 1 if wanted == given else max(kept, row[index])
            before = kept
    return row[-1]


def _same(wanted: Token, given: Token, tolerance: float) -> bool:
    if isinstance(wanted, float) and isinstance(given, float):
        return abs(wanted - given) <= tolerance + 1e-9 * max(1.0, abs(wanted))
    return wanted == given


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
