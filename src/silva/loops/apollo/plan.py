"""The plan of an APOLLO loop: the flywheel's, with masks, and without training where none is wanted. Pure."""

from __future__ import annotations

import json
from typing import Any

from silva.loops.apollo.config import ApolloConfig
from silva.loops.flywheel.plan import UNDECISIVE, Kind, Stage, seed_of
from silva.tree import digest

WHOLE = ("policy", "tasks", "play", "measure", "judge", "env", "line", "seed", "summary", "training")
ROUNDS = ("guidance", "person", "masking", "mask", "copies")


def stages(config: ApolloConfig) -> list[Stage]:
    """The stages, in the order in which they run. Guidance and masks decide the rounds, and nothing before them."""
    whole: dict[str, Any] = config.model_dump(mode="json", exclude=UNDECISIVE)
    made: list[Stage] = []
    known = digest("apollo", json.dumps({name: whole[name] for name in WHOLE}, sort_keys=True))

    def add(kind: Kind, number: int = 0, name: str = "") -> None:
        named = name or (f"round-{number}.{kind}" if number else kind)
        made.append(Stage(name=named, kind=kind, round=number, seed=seed_of(config.seed, named), inputs=known))

    for kind in ("base", "survey", "split", "measure"):
        if kind != "measure" or config.training:
            add(kind)
    known = digest(known, json.dumps({name: whole[name] for name in ROUNDS}, sort_keys=True))
    for number, settings in enumerate(config.rounds, start=1):
        known = digest(known, json.dumps(whole["rounds"][number - 1], sort_keys=True))
        if settings.source == "policy":
            add("rollout", number)
        if config.masking:
            add("mask", number)
        add("select", number)
        if config.training:
            for kind in ("train", "register", "measure", "judge"):
                add(kind, number)
    if config.tasks.test and config.training:
        add("prove", name=f"prove-after-{len(config.rounds)}")
    add("report", name=f"report-after-{len(config.rounds)}")
    return made
