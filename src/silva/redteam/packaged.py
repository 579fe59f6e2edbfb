"""What packages add to the tables of attacks: by an entry point of the group `silva.redteam`, each names one object.

own table + entry points ─▶ table(own, kind) ─▶ {name: part} ─▶ found(what, name, table)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from typing import Protocol, TypeVar, runtime_checkable

from silva.errors import UsageError

GROUP = "silva.redteam"
"""The group of entry points that name a surface, framing, goal, perturbation or attacker."""


@runtime_checkable
class Part(Protocol):
    """Whatever stands in one of the tables."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...


_LONG = 200
"""Characters of names that still go into a line."""

_Part = TypeVar("_Part", bound=Part)
_Any = TypeVar("_Any")


def table(own: Iterable[_Part], kind: type[_Part]) -> dict[str, _Part]:
    """All parts of a kind, by name: those there are without a package, then those of packages.

    Raises:
        UsageError: a package's part cannot be loaded, or is none.
    """
    return {each.name: each for each in (*own, *(each for each in _packaged() if isinstance(each, kind)))}


def found(what: str, name: str, table: dict[str, _Any]) -> _Any:
    """The part of that name.

    Raises:
        UsageError: there is none; the line names those there are, or where they are many those that are near.
    """
    if name not in table:
        known = ", ".join(table)
        if len(known) > _LONG:
            near = difflib.get_close_matches(name, table, 3, 0.4)
            known = f"{', '.join(near) or next(iter(table))}, … ({len(table)}: silva redteam list)"
        raise UsageError(f"attack: there is no {what} {name!r}; there are: {known}")
    return table[name]


@cache
def _packaged() -> tuple[object, ...]:
    loaded: list[object] = []
    for point in metadata.entry_points(group=GROUP):
        try:
            made = point.load()
        except Exception as error:
            text = " ".join(str(error).split())
            raise UsageError(f"redteam: {point.value} cannot be loaded: {type(error).__name__}: {text}") from error
        made = made() if isinstance(made, type) else made
        if not isinstance(made, Part):
            raise UsageError(
                f"redteam: {point.name} ({point.value}) has no name and summary, so it is part of no table"
            )
        loaded.append(made)
    return tuple(loaded)
