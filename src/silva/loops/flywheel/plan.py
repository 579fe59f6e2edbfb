"""The plan: all stages of a flywheel, from its configuration alone. Pure.

A stage's `inputs` is a digest of the part of the configuration that decides what it gives, and of the inputs of every
stage before it; how many episodes run at once and where, or how often a checkpoint is written, may change. So a stage
that has ended is known to be the one the present configuration means, or to be another. Rounds may be added to a loop:
the stages before them keep their names and inputs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from silva.loops.flywheel.config import FlywheelConfig
from silva.tree import Record, digest

Kind: TypeAlias = Literal[
    "base", "survey", "split", "measure", "rollout", "mask", "select", "train", "register", "judge", "prove", "report"
]


UNDECISIVE: Any = {
    "play": {"pool", "deadlines", "hosts", "on", "ray"},
    "rounds": {"__all__": {"checkpoint_every", "divergence"}},
}
"""What changes no result."""


class Stage(Record, frozen=True, kw_only=True):
    """One step. `round` counts from 1, 0 is before and after the rounds; `seed` is drawn from the loop's seed and the
    name."""

    name: str
    kind: Kind
    round: int
    seed: int
    inputs: str


def stages(config: FlywheelConfig) -> list[Stage]:
    """The stages, in the order in which they run."""
    before = ("policy", "tasks", "play", "measure", "judge", "env", "line", "seed")
    whole: dict[str, Any] = config.model_dump(mode="json", exclude=UNDECISIVE)
    made: list[Stage] = []
    known = digest(json.dumps({name: whole[name] for name in before}, sort_keys=True))

    def add(kind: Kind, number: int = 0, name: str = "") -> None:
        named = name or (f"round-{number}.{kind}" if number else kind)
        made.append(Stage(name=named, kind=kind, round=number, seed=seed_of(config.seed, named), inputs=known))

    for kind in ("base", "survey", "split", "measure"):
        add(kind)
    for number, settings in enumerate(config.rounds, start=1):
        known = digest(known, json.dumps(whole["rounds"][number - 1], sort_keys=True))
        for kind in ("rollout", "select", "train", "register", "measure", "judge"):
            if kind != "rollout" or settings.source == "policy":
                add(kind, number)
    if config.tasks.test:
        add("prove", name=f"prove-after-{len(config.rounds)}")
    add("report", name=f"report-after-{len(config.rounds)}")
    return made


def seed_of(seed: int, name: str) -> int:
    """The seed of a stage."""
    return int(digest("flywheel", str(seed), name)[:7], 16)


def before(stage: Stage, planned: Sequence[Stage]) -> list[Stage]:
    """The stages that run before one."""
    return list(planned[: next(place for place, each in enumerate(planned) if each.name == stage.name)])
