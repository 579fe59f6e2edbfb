"""The plan of a CurateEvo loop, from its configuration alone. Pure."""

from __future__ import annotations

from silva.curate.curation.source import named
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.kernel.stage import Plan, Stage, decisive
from silva.loops.line.plan import BEFORE, decisive_values
from silva.tree import digest

JUDGING = "start"
"""The stage under whose name judged curations are kept, whichever stage has them judged."""


def stages(config: CurateEvoConfig) -> list[Stage]:
    """The stages, in the order in which they run."""
    whole = decisive_values(config)
    plan = Plan(config.seed, digest("curateevo", decisive({name: whole[name] for name in BEFORE})))
    for kind in ("base", "survey", "split"):
        plan.add(kind)
    for each in whole["raw"]["play"]:
        if not each["born"]:
            del each["born"]  # as it was before tasks that grew were a corpus: begun loops stay the same
    plan.knows({name: whole[name] for name in ("raw", "recipe", "memory", "bounds")})
    plan.knows({name: whole["ablate"][name] for name in ("sft", "rl", "memory")})
    plan.add("raw")
    plan.add(JUDGING)
    plan.knows(named(config.initial).digest)
    plan.knows({name: whole[name] for name in ("weight", "reference", "candidates", "diagnoser", "evolver", "accept")})
    plan.knows({name: whole["ablate"][name] for name in ("effect", "efficiency", "diagnosis")})
    plan.add("first")
    for number in range(1, config.epochs + 1):
        plan.knows(number)
        if not config.ablate.diagnosis:
            plan.add("diagnose", number, f"epoch-{number}.diagnose")
        for phase in ("effect", "efficiency"):
            if not getattr(config.ablate, phase):
                plan.add(phase, number, f"epoch-{number}.{phase}")
    plan.knows(whole["prove"])
    if config.tasks.test:
        plan.add("prove", name=f"prove-after-{config.epochs}")
    plan.add("report", name=f"report-after-{config.epochs}")
    return plan.stages
