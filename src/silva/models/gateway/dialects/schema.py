"""The schema of a tool's arguments: its outermost level is checked, what is inside is the model server's to understand.

{"type": "object", "properties": {…}, "required": ["city"], …} ─▶ the same, or Malformed with the place
"""

from __future__ import annotations

from typing import Any, cast

from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.reading import plain
from silva.tree import Json

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
"""JSON Schema's names of types."""


def schema(value: Json, field: str) -> Json:
    """The schema itself, once sure that it can be one and can be written again.

    Raises:
        Malformed: its type is none, its properties are no object, or its required names no list of strings.
    """
    if "type" in value:
        _type(value["type"], f"{field}.type")
    if "properties" in value and not isinstance(value["properties"], dict):
        raise Malformed("this must be an object", f"{field}.properties")
    if "required" in value:
        names = _list(value["required"], "a list of strings", f"{field}.required")
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise Malformed("this must be a string", f"{field}.required[{place}]")
    return plain(value, field)


def _type(value: Any, field: str) -> None:
    if isinstance(value, str):
        _known(value, field)
        return
    names = _list(value, "a string or a list of strings", field)
    if not names:
        raise Malformed("this list must have something in it", field)
    for place, name in enumerate(names):
        _known(name, f"{field}[{place}]")


def _known(name: Any, field: str) -> None:
    if not isinstance(name, str) or name not in TYPES:
        told = repr(name[:40]) if isinstance(name, str) else "this"
        raise Malformed(f"{told} is not one of {', '.join(TYPES)}", field)


def _list(value: Any, what: str, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"this must be {what}", field)
    return cast("list[Any]", value)
