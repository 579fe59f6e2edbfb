"""The plan of an APOLLO loop: with masks, and without training where none is wanted. Pure."""

from __future__ import annotations

from silva.loops.apollo.config import ApolloConfig
from silva.loops.kernel.stage import Plan, Stage, decisive
from silva.loops.line.plan import BEFORE, decisive_values, end
from silva.tree import digest

ROUNDS = ("guidance", "person", "masking", "mask", "copies")
"""What decides the rounds, and nothing before them."""


def stages(config: ApolloConfig) -> list[Stage]:
    """The stages, in the order in which they run."""
    whole = decisive_values(config)
    before = {name: whole[name] for name in (*BEFORE, "summary", "training")}
    plan = Plan(config.seed, digest("apollo", decisive(before)))
    for kind in ("base", "survey", "split", "measure"):
        if kind != "measure" or config.training:
            plan.add(kind)
    plan.knows({name: whole[name] for name in ROUNDS})
    for number, settings in enumerate(config.rounds, start=1):
        plan.knows(whole["rounds"][number - 1])
        if settings.source == "policy":
            plan.add("rollout", number)
        if config.masking:
            plan.add("mask", number)
        plan.add("select", number)
        if config.training:
            for kind in ("train", "register", "measure", "judge"):
                plan.add(kind, number)
    end(plan, config, prove=config.training)
    return plan.stages
