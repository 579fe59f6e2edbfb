"""Reads a good reply although something in it that nobody needs is of another form.

    bytes ─▶ read ─▶ the value
               └ a side field does not fit: a whole number written as a float is one, else it is set aside ─▶ read again
               └ half of a character: U+FFFD stands in its place ─▶ read again

What is said is not touched: a reply whose words or calls do not fit is refused as before. What was set aside is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

MOST_FAULTS = 64
"""Fields of one reply that are set aside at most."""

T = TypeVar("T")

_SIDE = re.compile(
    r"(?:^|\.)(?:usage|logprobs|system_fingerprint|service_tier|created|object|id|model|role|type|index)(?:\.|\[|$)"
)
_WHERE = re.compile(r" - at `\$\.?([^`]*)`\Z")
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|([^.\[]+)")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

_plain = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def forgiven(read: Callable[[bytes], T], data: bytes) -> tuple[T, tuple[str, ...]]:
    """What `read` makes of the data, and the names of the fields that were set aside for it (none as a rule).

    Raises:
        msgspec.DecodeError, RecursionError, UnicodeDecodeError: it cannot be read for something that is needed.
    """
    try:
        return read(data), ()
    except msgspec.ValidationError as fault:
        return _without(read, data, fault)
    except msgspec.DecodeError:
        mended, count = whole_characters(data)
        if not count:
            raise
        value, aside = forgiven(read, mended)
        return value, (*aside, HALVES)


HALVES = "half characters"
"""What is named where halves of characters were replaced."""


def whole_characters(data: bytes) -> tuple[bytes, int]:
    """The JSON with U+FFFD for each escape of half a character (a lone surrogate, which no UTF-8 can hold), and how
    many there were."""
    count = 0

    def replaced(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[1] is None:
            return found[0]
        count += 1
        return b"\\ufffd"

    mended = _ESCAPE.sub(replaced, data)
    return (mended, count) if count else (data, 0)


def _without(read: Callable[[bytes], T], data: bytes, fault: msgspec.ValidationError) -> tuple[T, tuple[str, ...]]:
    value = _plain(data)
    aside: list[str] = []
    for _ in range(MOST_FAULTS):
        found = _WHERE.search(str(fault))
        place = found[1] if found is not None else ""
        if not _SIDE.search(place) or not _set_aside(value, place):
            raise fault
        if place not in aside:
            aside.append(place)
        try:
            return read(_encode(value)), tuple(aside)
        except msgspec.ValidationError as next_fault:
            fault = next_fault
    raise fault


def _set_aside(value: Any, place: str) -> bool:
    """Make a whole number of the float at the place, or take out what is there; whether there was something."""
    steps: list[str | int] = [int(number) if number.isdigit() else name or 0 for number, name in _STEP.findall(place)]
    while steps and isinstance(steps[-1], int):  # what is wrong with one of a list is wrong with the list
        steps.pop()
    around: Any = value
    for step in steps[:-1]:
        try:
            around = around[step]
        except (KeyError, IndexError, TypeError):
            return False
    if not steps or not isinstance(around, dict) or steps[-1] not in around:
        return False
    last = steps[-1]
    members = cast("dict[str | int, Any]", around)
    wrong = members[last]
    if isinstance(wrong, float) and wrong.is_integer():
        members[last] = int(wrong)
    else:
        del members[last]
    return True
