"""The plan of a CoEvolve loop, from its configuration alone. Pure."""

from __future__ import annotations

from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.kernel.stage import Plan, Stage, decisive
from silva.loops.line.plan import BEFORE, decisive_values, end
from silva.tree import digest

TRAINS = ("select", "train", "register")


def stages(config: CoEvolveConfig) -> list[Stage]:
    """The stages, in the order in which they run. Tasks grow before anything is selected: a round in which no group's
    rewards differ has nothing to train on, and the next one needs other tasks all the more. Signals are read where
    tasks grow: reading all that was played takes longer with every round."""
    whole = decisive_values(config)
    plan = Plan(config.seed, digest("coevolve", decisive({name: whole[name] for name in BEFORE})))
    for kind in ("base", "survey", "split", "measure"):
        plan.add(kind)
    plan.knows([whole["grow"], whole["initial"], whole["taught"]])
    grows = set(config.grows_after)
    for number, settings in enumerate(config.rounds, start=1):
        plan.knows(whole["rounds"][number - 1])
        own = ("rollout", *(("signals", "grow") if number in grows else ())) if settings.source == "policy" else ()
        measured = ("measure",) if number % config.judge.every == 0 else ()
        for kind in (*own, *TRAINS, *measured, "judge"):
            plan.add(kind, number)
    end(plan, config)
    return plan.stages
