"""An attack by name: `SURFACE/FRAMING/GOAL`, and the tables that its three names are looked up in.

"tool_result/important/call" ─▶ Attack          "*/plain/*" ─▶ every attack that fits
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import metadata
from typing import TypeVar

from silva.errors import UsageError
from silva.redteam.framing import FRAMINGS, Framing
from silva.redteam.goal import GOALS, Goal
from silva.redteam.perturbation import PERTURBATIONS, Perturbation
from silva.redteam.surface import SURFACES, Surface

_Any = TypeVar("_Any")
_Part = TypeVar("_Part", Surface, Framing, Goal, Perturbation)

GROUP = "silva.redteam"
"""The group of entry points that name a `Surface`, `Framing`, `Goal` or `Perturbation`."""


@dataclass(frozen=True, slots=True)
class Attack:
    """Where, how and what for."""

    surface: Surface
    framing: Framing
    goal: Goal

    @property
    def name(self) -> str:
        """`SURFACE/FRAMING/GOAL`."""
        return f"{self.surface.name}/{self.framing.name}/{self.goal.name}"

    @property
    def standards(self) -> tuple[str, ...]:
        """Ids of OWASP and MITRE ATLAS, each once."""
        return tuple(dict.fromkeys((*self.surface.standards, *self.framing.standards, *self.goal.standards)))

    @classmethod
    def of(cls, name: str) -> Attack:
        """The attack of that name.

        Raises:
            UsageError: it is not of three names, or one of them is not known.
        """
        names = name.split("/")
        if len(names) != 3:
            raise UsageError(f"attack {name!r}: write SURFACE/FRAMING/GOAL (silva redteam list shows the names)")
        surface, framing, goal = names
        return cls(
            _found("surface", surface, surfaces()),
            _found("framing", framing, framings()),
            _found("goal", goal, goals()),
        )


def attacks(patterns: Sequence[str]) -> list[Attack]:
    """Every attack that one of the patterns fits, `*` standing for any name, in the tables' order.

    Raises:
        UsageError: a pattern fits none.
    """
    chosen: dict[str, Attack] = {}
    for pattern in patterns:
        if not any(mark in pattern for mark in "*?["):
            chosen.setdefault(pattern, Attack.of(pattern))
            continue
        fitting = [
            attack
            for surface in surfaces().values()
            for framing in framings().values()
            for goal in goals().values()
            if fnmatchcase((attack := Attack(surface, framing, goal)).name, pattern)
        ]
        if not fitting:
            raise UsageError(f"attack {pattern!r}: fits none (silva redteam list shows the names)")
        for attack in fitting:
            chosen.setdefault(attack.name, attack)
    return list(chosen.values())


def surfaces() -> dict[str, Surface]:
    """All surfaces there are, by name."""
    return _table(SURFACES, Surface)


def framings() -> dict[str, Framing]:
    """All framings there are, by name."""
    return _table(FRAMINGS, Framing)


def goals() -> dict[str, Goal]:
    """All goals there are, by name."""
    return _table(GOALS, Goal)


def perturbations() -> dict[str, Perturbation]:
    """All perturbations there are, by name."""
    return _table(PERTURBATIONS, Perturbation)


def perturbation(name: str) -> Perturbation:
    """The perturbation of that name.

    Raises:
        UsageError: there is none.
    """
    return _found("perturbation", name, perturbations())


def _table(own: Iterable[_Part], kind: type[_Part]) -> dict[str, _Part]:
    return {each.name: each for each in (*own, *(each for each in _packaged() if isinstance(each, kind)))}


@cache
def _packaged() -> tuple[object, ...]:
    loaded: list[object] = []
    for point in metadata.entry_points(group=GROUP):
        try:
            made = point.load()
        except Exception as error:
            text = " ".join(str(error).split())
            raise UsageError(f"redteam: {point.value} cannot be loaded: {type(error).__name__}: {text}") from error
        if not isinstance(made, Surface | Framing | Goal | Perturbation):
            raise UsageError(f"redteam: {point.name} ({point.value}) is no surface, framing, goal or perturbation")
        loaded.append(made)
    return tuple(loaded)


def _found(what: str, name: str, table: dict[str, _Any]) -> _Any:
    if name not in table:
        raise UsageError(f"attack: there is no {what} {name!r}; there are: {', '.join(table)}")
    return table[name]
