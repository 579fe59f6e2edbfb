"""Fixed questions with differential privacy: count, sum, mean, histogram. They need nobody's review.

    rows ─▶ at most `rows_per_person` of each person ─▶ where COLUMN=VALUE ─▶ OpenDP's measurement at epsilon ─▶ answer

Numbers are taken as whole multiples of 10^-digits and clamped to the policy's bounds, so that the noise is drawn from
integers (discrete Laplace) and says nothing by its last bits.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from silva.curate.sealed.policy import Column, Policy
from silva.errors import MissingError, UsageError
from silva.tree import Record

LEAST_EPSILON = 1e-3


class Question(Record, frozen=True, kw_only=True):
    """A fixed question: what, of which column, at what cost; `where` are columns and the value they must have."""

    what: Literal["count", "sum", "mean", "histogram"]
    epsilon: float
    column: str = ""
    where: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """What was asked, in hex."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    def checked(self, policy: Policy) -> Question:
        """The question, if the policy allows it.

        Raises:
            UsageError: what it does not allow.
        """
        if not LEAST_EPSILON <= self.epsilon <= policy.epsilon:
            raise UsageError(f"epsilon {self.epsilon:g}: give one from {LEAST_EPSILON:g} to {policy.epsilon:g}")
        wanted = {"sum": "number", "mean": "number", "histogram": "category"}.get(self.what)
        if wanted is not None and _column(policy, self.column).type != wanted:
            raise UsageError(f"{self.what} wants a column of the type {wanted}; {self.column} is none")
        for name, value in self.where:
            column = _column(policy, name)
            if column.type != "category" or value not in column.values:
                raise UsageError(f"where {name}={value}: give a category column and one of its values")
        return self


def answer(question: Question, rows: bytes, policy: Policy) -> dict[str, Any]:
    """The answer, noise and all.

    Raises:
        MissingError: OpenDP is not installed.
    """
    library = _opendp()
    found = [row for row in _bounded(rows, policy) if all(row.get(name) == value for name, value in question.where)]
    person, epsilon = policy.rows_per_person, question.epsilon
    match question.what:
        case "count":
            return {"count": _count(library, len(found), person, epsilon)}
        case "sum":
            column = _column(policy, question.column)
            steps = [_steps(row[question.column], column) for row in found if row.get(question.column) is not None]
            low, high = _steps(column.lower, column), _steps(column.upper, column)
            return {"sum": _sum(library, steps, (low, high), person, epsilon) / 10**column.digits}
        case "mean":
            column = _column(policy, question.column)
            steps = [_steps(row[question.column], column) for row in found if row.get(question.column) is not None]
            low, high = _steps(column.lower, column), _steps(column.upper, column)
            # About the middle of the bounds the largest step is half as large, and so is the noise.
            middle, half = (low + high) // 2, max(high - (low + high) // 2, (low + high) // 2 - low)
            total = _sum(library, [each - middle for each in steps], (-half, half), person, epsilon / 2)
            count = max(1, _count(library, len(steps), person, epsilon / 2))
            mean = (middle + total / count) / 10**column.digits
            return {"mean": round(min(column.upper, max(column.lower, mean)), column.digits), "count": count}
        case "histogram":
            column = _column(policy, question.column)
            values = [str(row.get(question.column)) for row in found]
            return {"histogram": _histogram(library, values, column.values, person, epsilon)}


def _bounded(rows: bytes, policy: Policy) -> list[dict[str, Any]]:
    """The rows, of each person the first few by a digest of theirs, whatever their order."""
    lines = rows.splitlines()
    if not policy.person:
        return [json.loads(line) for line in lines]
    taken: Counter[str] = Counter()
    found: list[dict[str, Any]] = []
    for line in sorted(lines, key=lambda each: hashlib.sha256(each).digest()):
        row = json.loads(line)
        who = str(row[policy.person])
        taken[who] += 1
        if taken[who] <= policy.rows_per_person:
            found.append(row)
    return found


def _steps(value: float, column: Column) -> int:
    held = min(column.upper, max(column.lower, float(value)))
    return round(held * 10**column.digits)


def _count(library: Any, number: int, person: int, epsilon: float) -> int:
    space = library.vector_domain(library.atom_domain(T=bool)), library.symmetric_distance()

    def at(scale: float) -> Any:
        return space >> library.t.then_count() >> library.m.then_laplace(scale)

    return _measured(library, at, [True] * number, person, epsilon)


def _sum(library: Any, steps: Sequence[int], bounds: tuple[int, int], person: int, epsilon: float) -> int:
    space = library.vector_domain(library.atom_domain(T=int)), library.symmetric_distance()

    def at(scale: float) -> Any:
        clamped = space >> library.t.then_clamp(bounds)
        return clamped >> library.t.then_sum() >> library.m.then_laplace(scale)

    return _measured(library, at, list(steps), person, epsilon)


def _histogram(
    library: Any, values: list[str], categories: Sequence[str], person: int, epsilon: float
) -> dict[str, int]:
    space = library.vector_domain(library.atom_domain(T=str)), library.symmetric_distance()

    def at(scale: float) -> Any:
        counted = space >> library.t.then_count_by_categories(list(categories), null_category=False)
        return counted >> library.m.then_laplace(scale)

    return dict(zip(categories, _measured(library, at, values, person, epsilon), strict=True))


def _measured(library: Any, at: Callable[[float], Any], data: Any, person: int, epsilon: float) -> Any:
    # Another row in the place of one is two changes of the symmetric distance; a person is added or taken away as one.
    return at(library.binary_search_param(at, d_in=person, d_out=epsilon))(data)


def _column(policy: Policy, name: str) -> Column:
    if name not in policy.columns:
        raise UsageError(f"the policy has no column {name!r}; it has {', '.join(policy.columns) or 'none'}")
    return policy.columns[name]


def _opendp() -> Any:
    try:
        import opendp.prelude
    except ImportError as error:
        raise MissingError("questions with differential privacy need: pip install 'silva[privacy]'") from error
    library: Any = opendp.prelude
    library.enable_features("contrib")
    return library
