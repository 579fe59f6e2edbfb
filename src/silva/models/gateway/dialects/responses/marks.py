"""What the Responses API says of an item beyond its words, and where it is kept until the item is written again.

    item ─▶ its words ─▶ a part or a call    what else it says (id, status, summary, …) ─▶ `extra["item"]` of that
    part ─▶ its text                         annotations, logprobs                      ─▶ `extra["part"]`
    kinds nobody here knows                                                             ─▶ OtherPart, as written

Ids that this gateway made up itself are not kept: no provider knows them. They tell which items one reply gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from silva.tree import Json

RESPONSES = "responses"
"""This API's name where it is said in whose words something is."""

ITEM = "item"
"""The member of a part's or call's extra that holds what its item says beyond its words."""

PART = "part"
"""The member of a text's extra that holds what its content part says beyond it."""

AFTER = "after"
"""The member of a call's mark that says behind how many parts of its message it came, where that is not all."""

NAMESPACE = "namespace"
"""The kind of a tool that holds functions under one name, and the member of a call that says under which."""

_MADE_HERE = re.compile(r"[a-z]+_(.+)_\d+\Z").match


def stamp_of(item: str | None) -> str | None:
    """The id of the reply that an item's id names, where this gateway made it up; None for a provider's."""
    found = _MADE_HERE(item or "")
    return None if found is None else found[1]


def inside(space: str, name: str) -> str:
    """The one name of a function that this API calls by two, its namespace's and its own."""
    return f"{space}{name}" if space.endswith("__") else f"{space}__{name}"


def marked(extra: Json | None, mark: Mapping[str, Any], name: str = ITEM) -> Json | None:
    """The extra with what an item (or part) says beyond its words, where it says anything."""
    said = {key: value for key, value in mark.items() if value is not None}
    if stamp_of(said.get("id")) is not None:
        del said["id"]
        said.pop("status", None)
    return {**(extra or {}), name: said} if said else extra


def named_once(name: str, extra: Json | None) -> tuple[str, Json | None]:
    """The one name of a call, and its extra, which keeps both names where it was called by two."""
    space = (extra or {}).get(NAMESPACE)
    if not (isinstance(space, str) and space):
        return name, extra
    rest = {key: value for key, value in (extra or {}).items() if key != NAMESPACE}
    return inside(space, name), {**rest, ITEM: {**mark_of(extra), NAMESPACE: space, "name": name}}


def mark_of(extra: Json | None, name: str = ITEM) -> Json:
    """What an item (or part) says beyond its words; empty where nothing is kept of it."""
    return (extra or {}).get(name) or {}
