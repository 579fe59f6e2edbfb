"""The implementations of roles there are, by `ROLE.NAME`: Silva's own, and those that packages bring.

    modules of embedded/ and endpoint/ ─┐
    entry points "silva.roles" ─────────┴▶ make("explorer", "policy", {"temperature": 1.5}) ─▶ an Explorer

An entry point is called `ROLE.NAME` and names a class of `Implementation` that says the same of itself. One that cannot
be loaded does not hide the others: it is told when it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any, ClassVar, get_args

from pydantic import ValidationError

from silva.errors import UsageError
from silva.rollout.acted import ROLES, Acted, Role
from silva.rollout.section import Section

GROUP = "silva.roles"
"""The group of entry points that name implementations."""

_PACKAGES = ("silva.loops.roles.embedded", "silva.loops.roles.endpoint")


class NoOptions(Section):
    """The options of an implementation that has none."""


class Implementation:
    """Somebody who plays a role. A subclass says which `role`, under which `name`, in one line what it does
    (`summary`), and which `Options` it takes; the protocol of what it then does stands in the role's own file."""

    role: ClassVar[Role]
    name: ClassVar[str]
    summary: ClassVar[str] = ""
    Options: ClassVar[type[Section]] = NoOptions

    def __init__(self, options: Any = None) -> None:
        self.options: Any = options if options is not None else self.Options()
        self.spent = Acted(role=self.role, by=self.name)
        """All it cost so far, what came to nothing included (of an explorer its run's turns say it)."""


def make(role: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """An implementation of a role, with its options.

    Args:
        role: `explorer`, `abstracter`, `writer`, `diagnoser` or `evolver`.
        name: as registered: `policy`, `endpoint` …
        options: fields of its `Options`.

    Raises:
        UsageError: there is no such role or implementation (the known ones are named), its package cannot be loaded,
            or it refuses an option.
    """
    found = known(role)
    if name not in found:
        broken = _broken().get(f"{role}.{name}")
        if broken:
            raise UsageError(f"{role} {name}: {broken}")
        near = difflib.get_close_matches(name, found, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"{role} {name!r} is not known; {hint}there are {', '.join(found) or 'none'}")
    kind = found[name]
    try:
        return kind(kind.Options.model_validate(dict(options or {})))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "options"
        raise UsageError(
            f"{role} {name}: {where}: {first['msg']} (of {', '.join(kind.Options.model_fields)})"
        ) from error


def known(role: str) -> dict[str, type[Implementation]]:
    """The implementations of a role, by name.

    Raises:
        UsageError: there is no such role.
    """
    if role not in get_args(Role):
        raise UsageError(f"role {role!r} is not known; there are {', '.join(ROLES)}")
    return {kind.name: kind for _, kind in sorted(_all().items()) if kind.role == role}


@cache
def _all() -> dict[str, type[Implementation]]:
    found: dict[str, type[Implementation]] = {}
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__):
            for each in vars(importlib.import_module(f"{name}.{module.name}")).values():
                if _is_one(each) and each.__module__ == f"{name}.{module.name}":
                    found[f"{each.role}.{each.name}"] = each
    for point in metadata.entry_points(group=GROUP):
        made = _loaded(point)
        if not isinstance(made, str):
            found.setdefault(point.name, made)
    return found


@cache
def _broken() -> dict[str, str]:
    made = {point.name: _loaded(point) for point in metadata.entry_points(group=GROUP)}
    return {name: why for name, why in made.items() if isinstance(why, str)}


@cache
def _loaded(point: metadata.EntryPoint) -> type[Implementation] | str:
    """The class, or why it cannot be used."""
    try:
        made = point.load()
    except Exception as error:  # noqa: BLE001 - importing another's package may raise anything; it is told by name
        return f"{point.value} cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())}"
    if not _is_one(made):
        return f"{point.value} is no silva.loops.roles.Implementation with a role and a name"
    said = f"{made.role}.{made.name}"
    return made if said == point.name else f"{point.value} calls itself {said}; name the entry point so"


def _is_one(value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, Implementation)
        and getattr(value, "role", None) in ROLES
        and bool(getattr(value, "name", ""))
    )
