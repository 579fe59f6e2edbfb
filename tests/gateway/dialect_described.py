"""What the schema of a dialect's bodies cannot say, and bodies made from it."""

from __future__ import annotations

import re
from typing import Any, cast

BEYOND = re.compile(
    "there is no tool named|a tool named|got `?'?float|out of range|nested too deep|not JSON|not UTF-8"
    "|there is no response|reads no images"
)
"""Refusals of what a schema allows: of two fields that must fit each other, of integers beyond 64 bits or written with
a fraction (1.0), of what is no JSON at all, of what is not kept here or the model cannot see."""


def whole(value: Any) -> Any:
    """The value with integers written as integers: to a schema 1.0 is one."""
    if isinstance(value, dict):
        return {name: whole(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [whole(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
