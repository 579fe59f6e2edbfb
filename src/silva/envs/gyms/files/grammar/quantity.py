"""A quantity or a fact that a file holds: how it is asked for, the calls that find it, and what it is.

The value is reckoned from what the file was made of, never from the calls: that the calls find it is what a task's
check by execution shows. In a call, `@1` stands for its quantity's first result, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from silva.envs.gyms.files.grammar.seeds import Theme
from silva.tree import Json, Record

Call = tuple[str, Json]


class Quantity(Record, frozen=True, kw_only=True):
    """Something that can be asked for. `words`: a noun phrase; `found`: an expression over the calls' results that
    gives it; `value`: a number or a text; `wrong`: texts that an answer must not hold; `unit`: of a number, for
    `convert_unit`; `sure`: what may differ from the value and still be right."""

    pattern: str
    words: str
    files: dict[str, Json]
    calls: tuple[Call, ...]
    found: str
    value: float | str
    wrong: tuple[str, ...] = ()
    unit: str = ""
    sure: float = 0.0
    data: Json = msgspec.field(default_factory=dict[str, Any])


Make = Callable[[Random, Theme, str], Quantity]
"""Draws one; the last argument is a tag that keeps the names of two quantities' files apart."""
