"""The policy of a sealed set: what its owner allows, for good. It is sealed with the rows; changing it breaks the seal.

{"columns": {"age": {"type": "number", "lower": 0, "upper": 120}, "city": {"type": "category", "values": […]}},
 "epsilon": 2.0, "k": 10, "bits": 256, "rows_per_person": 1, "person": ""}
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from silva.errors import UsageError
from silva.tree import Record


class Column(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What everybody may know of a column: the bounds of its numbers, or its categories."""

    type: Literal["number", "category"]
    lower: float = 0.0
    upper: float = 0.0
    digits: int = 2
    values: tuple[str, ...] = ()


class Policy(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may come out.

    Attributes:
        columns: what fixed operators may ask about.
        epsilon: the budget of differential privacy, of all questions ever asked together.
        k: a count over fewer rows than this is not told.
        bits: how many bits programs that a person approved may let out, all runs together.
        person: the column that says whose a row is; "" where each row is a person's only one.
        rows_per_person: how many rows of one person count; further ones are left out.
        largest: bytes of a release.
        seconds: what a program's run takes, for every program and outcome.
    """

    columns: dict[str, Column] = msgspec.field(default_factory=dict[str, Column])
    epsilon: float = 1.0
    k: int = 10
    bits: float = 256.0
    person: str = ""
    rows_per_person: int = 1
    largest: int = 4096
    seconds: float = 20.0

    def checked(self) -> Policy:
        """The policy, if it makes sense.

        Raises:
            UsageError: what does not.
        """
        for name, column in self.columns.items():
            if column.type == "category" and (not column.values or len(set(column.values)) != len(column.values)):
                raise UsageError(f"policy: column {name}: give its categories, each once")
            if column.type == "number" and not (
                math.isfinite(column.lower) and math.isfinite(column.upper) and column.lower < column.upper
            ):
                raise UsageError(f"policy: column {name}: give lower and upper bounds, the lower one first")
            if not 0 <= column.digits <= 6:
                raise UsageError(f"policy: column {name}: digits must be from 0 to 6")
        for name, least, most in (
            ("epsilon", 0.0, 100.0),
            ("k", 2, 1e9),
            ("bits", 0.0, 1e6),
            ("rows_per_person", 1, 1e6),
            ("largest", 256, 1 << 20),
            ("seconds", 1.0, 3600.0),
        ):
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"policy: {name} is {getattr(self, name)}: it must be from {least:g} to {most:g}")
        return self


def read_policy(path: Path) -> Policy:
    """The policy in a JSON file.

    Raises:
        UsageError: it cannot be read, or makes no sense.
    """
    return parsed(path, Policy).checked()


def parsed(path: Path, kind: type[Any]) -> Any:
    """A JSON file as a record.

    Raises:
        UsageError: it cannot be read, or is another thing.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
