"""The gate: what a program says is let out only as a shape that was agreed on before, of which every bit is counted.

    shape (typed fields) ─▶ its capacity in bits ─▶ approved by a person
    program's words ─▶ parsed, held to the shape, rounded, small counts left out, written anew ─▶ the release

No field is text. What a program can hide in a release is bounded by the number of different releases its shape allows.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import msgspec

from silva.curate.sealed.policy import Policy
from silva.errors import UsageError
from silva.tree import Record

_MOST_FIELDS = 64
_encode = msgspec.json.Encoder(order="deterministic").encode


class Shut(Exception):
    """The program's words are not of the shape. Why is for the owner's ledger, not for who asked."""


class Field(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of a release.

    Attributes:
        type: `number`: within bounds, rounded to `digits`; `count`: whole, from 0, none below the policy's k;
            `choice`: one of `values`; `histogram`: a count for each of `values`; `flag`: true or false.
        upper: of counts, the largest.
    """

    type: Literal["number", "count", "choice", "histogram", "flag"]
    lower: float = 0.0
    upper: float = 0.0
    digits: int = 0
    values: tuple[str, ...] = ()


class Shape(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a release holds."""

    fields: dict[str, Field]

    def checked(self) -> Shape:
        """The shape, if it makes sense.

        Raises:
            UsageError: what does not.
        """
        if not 0 < len(self.fields) <= _MOST_FIELDS:
            raise UsageError(f"shape: give from 1 to {_MOST_FIELDS} fields")
        for name, field in self.fields.items():
            if not name.isidentifier() or len(name) > 40:
                raise UsageError(f"shape: field {name!r}: use letters, digits and underscores")
            finite = math.isfinite(field.lower) and math.isfinite(field.upper)
            if field.type in ("number", "count", "histogram") and not (finite and field.lower < field.upper <= 1e12):
                raise UsageError(f"shape: field {name}: give bounds, the lower one first")
            if field.type in ("choice", "histogram") and not (1 < len(field.values) <= 256):
                raise UsageError(f"shape: field {name}: give from 2 to 256 values")
            if len(set(field.values)) != len(field.values) or not 0 <= field.digits <= 6:
                raise UsageError(f"shape: field {name}: values must differ, digits be from 0 to 6")
        return self

    def bits(self, policy: Policy) -> float:
        """How many bits a release can carry: the logarithm of the number of different ones, and one that is refused."""
        return sum(_bits(field, policy.k) for field in self.fields.values()) + 1.0


def _bits(field: Field, k: int) -> float:
    counts = math.log2(max(0.0, math.floor(field.upper) - k + 1) + 1) if field.upper >= k else 0.0
    match field.type:
        case "number":
            return math.log2(math.floor((field.upper - field.lower) * 10**field.digits) + 2)
        case "count":
            return counts
        case "histogram":
            return counts * len(field.values)
        case "choice":
            return math.log2(len(field.values))
        case "flag":
            return 1.0


def let_through(words: bytes, shape: Shape, policy: Policy) -> dict[str, Any]:
    """The release in what a program said.

    Raises:
        Shut: it said something else.
    """
    if len(words) > policy.largest:
        raise Shut(f"said {len(words)} bytes, {policy.largest} are allowed")
    try:
        said = json.loads(words, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Shut("said no JSON, or a name twice") from error
    if not isinstance(said, dict) or said.keys() != shape.fields.keys():
        raise Shut("said other fields than agreed")
    return {name: _value(name, said[name], field, policy.k) for name, field in sorted(shape.fields.items())}


def _value(name: str, value: Any, field: Field, k: int) -> Any:
    match field.type:
        case "number":
            return _number(name, value, field)
        case "count":
            return _count(name, value, field, k)
        case "choice":
            if not isinstance(value, str) or value not in field.values:
                raise Shut(f"{name} is none of its values")
            return value
        case "flag":
            if not isinstance(value, bool):
                raise Shut(f"{name} is neither true nor false")
            return value
        case "histogram":
            if not isinstance(value, dict) or not value.keys() <= set(field.values):
                raise Shut(f"{name} counts other values than agreed")
            return {each: _count(name, value.get(each, 0), field, k) for each in sorted(field.values)}


def _number(name: str, value: Any, field: Field) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Shut(f"{name} is no number")
    if not field.lower <= value <= field.upper:
        raise Shut(f"{name} is out of its bounds")
    # The nearest of the values that the shape has; -0.0 is 0.0, or the sign would carry a bit more.
    step = round((value - field.lower) * 10**field.digits)
    return min(field.upper, round(field.lower + step / 10**field.digits, field.digits)) + 0.0


def _count(name: str, value: Any, field: Field, k: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not max(0, field.lower) <= value <= field.upper:
        raise Shut(f"{name} is no whole number within its bounds")
    return value if value >= k else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(name)


def reply(release: dict[str, Any] | None, policy: Policy) -> bytes:
    """What who asked is given, of one size whatever it says: a release, or that it is refused (and no more)."""
    body: dict[str, Any] = {"refused": release is None, "release": release, "padding": ""}
    size = len(_encode(body))
    if size > 2 * policy.largest:
        return reply(None, policy)
    return _encode({**body, "padding": " " * (2 * policy.largest - size)}) + b"\n"
