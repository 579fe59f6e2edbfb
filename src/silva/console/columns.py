"""Columns of attempts: every figure of a row and every metric its checker gave, to sort and to filter by.

"score >= 0.5, recall < 1" ─▶ conditions, all of which must hold; an attempt without that figure meets none
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from silva.console.attempt import Attempt
from silva.errors import UsageError

SORTS = ("moved", "started", "task", "status", "score", "safety", "turns", "tokens", "usd", "run", "env")
"""Columns every attempt has."""
FIGURES = ("score", "safety", "turns", "tokens", "usd", "started", "moved")
"""Those of them that are numbers."""
MOST_METRICS = 40
"""Metrics that get a column, those most attempts have first."""

_TESTS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_CONDITION = re.compile(r"\s*(?P<name>.+?)\s*(?P<test>>=|<=|!=|==|=|>|<)\s*(?P<value>-?[0-9.]+(?:[eE]-?[0-9]+)?)\s*")


def names(attempts: Sequence[Attempt]) -> list[str]:
    """The metrics that these attempts have, in order of their names."""
    counts: dict[str, int] = {}
    for each in attempts:
        for name in each.metrics:
            counts[name] = counts.get(name, 0) + 1
    return sorted(sorted(counts, key=lambda name: -counts[name])[:MOST_METRICS])


def sorted_by(attempts: Sequence[Attempt], sort: str, descending: bool, metrics: Sequence[str]) -> list[Attempt]:
    """Attempts by a column; those that lack it last.

    Raises:
        UsageError: there is no such column.
    """
    if sort not in SORTS and sort not in metrics:
        raise UsageError(f"there is no column {sort[:40]!r} to sort by: there are {', '.join((*SORTS, *metrics))}")

    def key(each: Attempt) -> tuple[bool, Any, str]:
        value = figure(each, sort)
        return (value is not None) if descending else (value is None), value if value is not None else 0, each.id

    return sorted(attempts, key=key, reverse=descending)


def met(attempts: Sequence[Attempt], conditions: str) -> list[Attempt]:
    """The attempts that meet all conditions.

    Raises:
        UsageError: one of them is none.
    """
    tests = [_read(each) for each in re.split(r",|\band\b", conditions) if each.strip()]
    return [each for each in attempts if all(_holds(each, *test) for test in tests)]


def figure(attempt: Attempt, name: str) -> Any:
    """What stands in a column; None where nothing does."""
    value = getattr(attempt, name) if name in SORTS else attempt.metrics.get(name)
    return None if isinstance(value, float) and math.isnan(value) else value


def _read(text: str) -> tuple[str, Callable[[float, float], bool], float]:
    found = _CONDITION.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        value = float(found["value"])
    except ValueError as error:
        raise UsageError(
            f"{text.strip()[:60]!r} is no condition on a score: write score >= 0.5, several with commas"
        ) from error
    name = found["name"]
    if name in SORTS and name not in FIGURES:
        raise UsageError(f"{name} is no number: conditions on scores are on {', '.join(FIGURES)} and metrics")
    return name, _TESTS[found["test"].replace("==", "=")], value


def _holds(attempt: Attempt, name: str, test: Callable[[float, float], bool], value: float) -> bool:
    known = figure(attempt, name)
    return known is not None and test(float(known), value)
