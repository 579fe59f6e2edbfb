"""The plan of a SPORT loop, from its configuration alone. Pure."""

from __future__ import annotations

from silva.loops.kernel.stage import Plan, Stage, decisive
from silva.loops.line.plan import BEFORE, decisive_values, end
from silva.loops.sport.config import SportConfig, SportRound
from silva.tree import digest

PREFERRING = ("from", "synthesis", "search", "pairs", "check")
"""What decides rounds of preferences, and nothing before them."""
CLOSING = ("train", "register", "measure", "judge")


def stages(config: SportConfig) -> list[Stage]:
    """The stages, in the order in which they run."""
    whole = decisive_values(config)
    plan = Plan(config.seed, digest("sport", decisive({name: whole[name] for name in BEFORE})))
    for kind in ("base", "survey", "split", "measure"):
        plan.add(kind)
    for number, settings in enumerate(config.rounds, start=1):
        if number == config.first_preferring:
            plan.knows({name: whole[name] for name in PREFERRING})
        plan.knows(whole["rounds"][number - 1])
        for kind in (*_data(config, settings), "select", *CLOSING):
            plan.add(kind, number)
    end(plan, config)
    return plan.stages


def _data(config: SportConfig, settings: SportRound) -> list[str]:
    """The stages that make a round's data."""
    if settings.source == "expert":
        return []
    if settings.pairs_of is not None:
        return []
    made = ["synthesise"] if config.synthesis is not None else []
    if settings.compare == "tries":
        return [*made, "rollout"]
    return [*made, "search", "pairs", *(["check"] if config.check.pairs else [])]
