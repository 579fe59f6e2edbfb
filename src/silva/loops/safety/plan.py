"""The plan of a safety loop, from its configuration alone. Pure."""

from __future__ import annotations

from silva.loops.kernel.stage import Plan, Stage, decisive
from silva.loops.line.plan import BEFORE, decisive_values, end
from silva.loops.safety.config import SafetyConfig
from silva.tree import digest

ROUND = ("attack", "explore", "select", "train", "register", "measure", "guard", "judge")


def stages(config: SafetyConfig) -> list[Stage]:
    """The stages, in the order in which they run."""
    whole = decisive_values(config)
    plan = Plan(config.seed, digest("safety", decisive({name: whole[name] for name in (*BEFORE, "attacks")})))
    for kind in ("base", "survey", "split", "measure", "guard"):
        plan.add(kind)
    plan.knows(whole["find"])
    for number in range(1, len(config.rounds) + 1):
        plan.knows(whole["rounds"][number - 1])
        for kind in ROUND:
            plan.add(kind, number)
    end(plan, config)
    return plan.stages
