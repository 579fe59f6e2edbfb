"""An attack by name: `SURFACE/FRAMING/GOAL`, and the tables that its three names are looked up in.

"tool_result/important/call" ─▶ Attack          "*/plain/*" ─▶ every attack that fits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from silva.errors import UsageError
from silva.redteam.framing import FRAMINGS, Framing
from silva.redteam.goal import GOALS, Goal
from silva.redteam.mcp_surface import MCP_SURFACES
from silva.redteam.packaged import found, table
from silva.redteam.perturbation import PERTURBATIONS, Perturbation
from silva.redteam.surface import SURFACES, Surface


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
            found("surface", surface, surfaces()),
            found("framing", framing, framings()),
            found("goal", goal, goals()),
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
    return table((*SURFACES, *MCP_SURFACES), Surface)


def framings() -> dict[str, Framing]:
    """All framings there are, by name."""
    return table(FRAMINGS, Framing)


def goals() -> dict[str, Goal]:
    """All goals there are, by name."""
    return table(GOALS, Goal)


def perturbations() -> dict[str, Perturbation]:
    """All perturbations there are, by name."""
    return table(PERTURBATIONS, Perturbation)


def perturbation(name: str) -> Perturbation:
    """The perturbation of that name.

    Raises:
        UsageError: there is none.
    """
    return found("perturbation", name, perturbations())
