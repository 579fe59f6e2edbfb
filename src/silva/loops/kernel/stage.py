"""A stage, and the plan they stand in. Pure.

A stage's `inputs` is a digest of the part of the configuration that decides what it gives, and of the inputs of every
stage before it. So a stage that has ended is known to be the one the present configuration means, or to be another.
Rounds may be added to a loop: the stages before them keep their names and inputs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from silva.tree import Record, digest


class Nothing(Exception):
    """The stage cannot give anything, and so the rest of its round is skipped; the message says why."""


class Waiting(Exception):
    """The stage goes on only when people have done their part, and nothing failed; the message says what is wanted of
    them, and where. The loop stops there and, begun again, comes back to the stage."""


class Stage(Record, frozen=True, kw_only=True):
    """One step. `kind` says what runs it; `round` counts from 1, 0 is before and after the rounds; `seed` is drawn from
    the loop's seed and the name."""

    name: str
    kind: str
    round: int
    seed: int
    inputs: str


class Plan:
    """A plan in the making: `knows` adds what decides the stages from here on, `add` the next stage.

    Args:
        seed: the loop's.
        known: what decides the first stage: a digest.
    """

    def __init__(self, seed: int, known: str) -> None:
        self.stages: list[Stage] = []
        self._seed = seed
        self._known = known

    def knows(self, more: object) -> None:
        """What is JSON decides every stage from here on, beside all that did before."""
        self._known = digest(self._known, decisive(more))

    def add(self, kind: str, number: int = 0, name: str = "") -> None:
        """The next stage: of round `number`, or outside the rounds; called round-NUMBER.KIND or KIND, or `name`."""
        named = name or (f"round-{number}.{kind}" if number else kind)
        seed = seed_of(self._seed, named)
        self.stages.append(Stage(name=named, kind=kind, round=number, seed=seed, inputs=self._known))


def decisive(values: object) -> str:
    """A part of a configuration as text that is the same for the same values."""
    return json.dumps(values, sort_keys=True)


def seed_of(seed: int, name: str) -> int:
    """The seed of a stage."""
    return int(digest("flywheel", str(seed), name)[:7], 16)  # the first loop's name: begun loops keep their seeds


def before(stage: Stage, planned: Sequence[Stage]) -> list[Stage]:
    """The stages that run before one."""
    return list(planned[: next(place for place, each in enumerate(planned) if each.name == stage.name)])
