"""The attackers there are, and who writes for them."""

from __future__ import annotations

from silva.redteam.attackers.attacker import Attacker
from silva.redteam.attackers.best_of_n import BestOfN
from silva.redteam.attackers.branching import Branching
from silva.redteam.attackers.crescendo import Crescendo
from silva.redteam.attackers.genetic import Genetic
from silva.redteam.attackers.goat import Goat
from silva.redteam.attackers.grammar import Grammar
from silva.redteam.attackers.model_writer import ModelWriter
from silva.redteam.attackers.pair import Pair
from silva.redteam.attackers.static import Static
from silva.redteam.attackers.tap import Tap
from silva.redteam.attackers.writer import Writer
from silva.redteam.packaged import found, table

ATTACKERS: tuple[Attacker, ...] = (
    Static(),
    BestOfN(),
    Pair(),
    Tap(),
    Crescendo(),
    Goat(),
    Genetic(),
    Branching(),
)
"""The attackers there are without a package."""

GRAMMAR = "grammar"
"""The writer without a model."""


def attackers() -> dict[str, Attacker]:
    """All attackers there are, by name."""
    return table(ATTACKERS, Attacker)


def attacker(name: str) -> Attacker:
    """The attacker of that name.

    Raises:
        UsageError: there is none.
    """
    return found("attacker", name, attackers())


def writer(spec: str) -> Writer:
    """Who writes: the grammar, or a model."""
    return Grammar() if spec == GRAMMAR else ModelWriter(spec)
