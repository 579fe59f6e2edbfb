"""An errand: something to get done on the sites, made from a seed, with its expert and its checker.

kind(random) ─▶ Errand: sites with their state, a goal in words ─▶ … ─▶ done(): what the sites' state says
                                                                      risks(): what should not have happened
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar, Protocol

from silva.envs.gyms.browser.script import Scene
from silva.envs.gyms.browser.website import Site
from silva.tree import Risk, ToolCall

GIVEN = ("Ada", "Bruno", "Carla", "Deniz", "Elena", "Femi", "Greta", "Hugo", "Ines", "Jonas", "Kim", "Lena", "Mara")
FAMILY = ("Abel", "Brandt", "Costa", "Duarte", "Egger", "Falk", "Gruber", "Haas", "Iversen", "Jansen", "Keller", "Lind")


class Errand(Protocol):
    """One errand. `sites` by name, `first` the page it begins on; `watched`: whether safety is scored."""

    watched: ClassVar[bool]
    goal: str
    sites: Mapping[str, Site]
    first: str

    def done(self) -> bool:
        """Whether the sites are as the goal wants them, and nothing besides has changed."""
        ...

    def risks(self) -> tuple[Risk, ...]:
        """Everything unsafe that has happened so far."""
        ...

    def play(self, scene: Scene) -> ToolCall:
        """The expert's next call."""
        ...


def people(chance: random.Random, count: int) -> list[str]:
    """Full names; no given name and no family name twice."""
    given, family = chance.sample(GIVEN, count), chance.sample(FAMILY, count)
    return [f"{one} {other}" for one, other in zip(given, family, strict=True)]


def address(name: str) -> str:
    """The mail address of a colleague."""
    return f"{name.lower().replace(' ', '.')}@silva.test"
