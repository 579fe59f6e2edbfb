"""The plan: all stages of a flywheel, from its configuration alone. Pure."""

from __future__ import annotations

from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.kernel.stage import Plan, Stage, decisive
from silva.loops.line.plan import BEFORE, decisive_values, end
from silva.tree import digest


def stages(config: FlywheelConfig) -> list[Stage]:
    """The stages, in the order in which they run."""
    whole = decisive_values(config)
    plan = Plan(config.seed, digest(decisive({name: whole[name] for name in BEFORE})))
    for kind in ("base", "survey", "split", "measure"):
        plan.add(kind)
    for number, settings in enumerate(config.rounds, start=1):
        plan.knows(whole["rounds"][number - 1])
        for kind in ("rollout", "select", "train", "register", "measure", "judge"):
            if kind != "rollout" or settings.source == "policy":
                plan.add(kind, number)
    end(plan, config)
    return plan.stages
