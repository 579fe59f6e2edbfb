"""Two texts as a diff whose lines carry their numbers on both sides; and a diff that was written, as such lines."""

from __future__ import annotations

import difflib
from typing import Any

MOST_LINES = 400
"""Lines of one diff."""
AROUND = 2
"""Lines that did not change, shown around those that did."""
_LONGEST = 500


def changes(before: str, after: str, numbered: bool = True) -> list[dict[str, Any]]:
    """The lines that changed, and those around them.

    Args:
        before: the text.
        after: what became of it.
        numbered: whether both are the whole file, so that a line's place is its number.

    Returns:
        For each line its `kind` (` `, `+`, `-`; `@` where lines are passed over, `…` where the rest is), its `text`
        and, if `numbered`, its number in `old` and in `new`, from 1.
    """
    old, new = before.splitlines(), after.splitlines()
    groups = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 4_000)
    found: list[dict[str, Any]] = []
    for number, group in enumerate(groups.get_grouped_opcodes(AROUND)):
        if number or group[0][1] > 0:
            found.append({"kind": "@", "text": ""})
        for kind, a, b, c, d in group:
            if kind == "equal":
                found += [_line(" ", old[a + i], a + i + 1, c + i + 1, numbered) for i in range(b - a)]
                continue
            found += [_line("-", old[i], i + 1, None, numbered) for i in range(a, b)]
            found += [_line("+", new[i], None, i + 1, numbered) for i in range(c, d)]
    more = len(found) - MOST_LINES
    return found if more <= 0 else [*found[:MOST_LINES], {"kind": "…", "text": f"{more:,} lines more"}]


def unified(text: str) -> list[dict[str, Any]]:
    """The lines of a unified diff as `changes` gives them, without numbers; the names in its head are left out."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("@@"):
            found.append({"kind": "@", "text": ""})
        elif found and line[:1] in ("+", "-", " "):
            found.append(_line(line[0], line[1:], None, None, False))
        elif not line.startswith(("---", "+++")):
            found.append(_line(" ", line, None, None, False))
    more = len(found) - MOST_LINES
    return found if more <= 0 else [*found[:MOST_LINES], {"kind": "…", "text": f"{more:,} lines more"}]


def _line(kind: str, text: str, old: int | None, new: int | None, numbered: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": kind, "text": text[:_LONGEST]}
    if numbered:
        made |= {"old": old, "new": new}
    return made
