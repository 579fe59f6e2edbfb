"""An attacker: from what was tried to what is tried next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from silva.redteam.attackers.writer import Try, Writer
from silva.redteam.effect import Order
from silva.redteam.framing import Framing
from silva.tree import Record


@dataclass(frozen=True, slots=True)
class Brief:
    """What an attacker knows: `task`, what the target was asked; the `order`; the `framing` it begins with; `surface`,
    where its words will stand, in words; a seeded `draw` of this try; `attempts`, how many there were at this
    task before."""

    task: str
    order: Order
    framing: Framing
    surface: str
    draw: Random
    attempts: int = 0


class Proposal(Record, frozen=True, kw_only=True):
    """What is said next. `how` it was made, in a word; `parents`: the tries it was made from, by their place in what
    was tried; `asks`: whether it says the wish, or only leads there."""

    words: str
    how: str = ""
    parents: tuple[int, ...] = ()
    asks: bool = True


class Attacker:
    """One strategy. It keeps no state: `propose` goes by what was tried alone."""

    name: str = ""
    summary: str = ""
    standards: tuple[str, ...] = ()
    moment: Literal["attempt", "turn"] = "attempt"
    """Whether it says one thing in an attempt and goes by earlier attempts, or something at every turn of one."""
    branches: bool = False
    """Whether its attempts begin at a decision of a run that was played before, instead of at the task's beginning."""

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """What to say next.

        Args:
            brief: what is wanted, where.
            tried: so far, oldest first; of this attempt where `moment` is `turn`, else of this task's attempts.
            writer: puts wishes into words.

        Raises:
            NotWritten: the writer has no words for it.
            ModelError: the writer's model cannot be had.
        """
        raise NotImplementedError


def best(tried: Sequence[Try]) -> int | None:
    """The place of the try that came furthest, the latest of equals; None where none was launched."""
    launched = [place for place, each in enumerate(tried) if each.launched]
    return max(launched, key=lambda place: (tried[place].score, place), default=None)
