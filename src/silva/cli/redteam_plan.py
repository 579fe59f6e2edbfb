"""`silva redteam run --plan FILE`: the runs of a plan that is written in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from silva.errors import UsageError


def planned_in(file: Path, lake: str | None, limit: int | None) -> tuple[str, str, dict[str, Any]]:
    """Where a plan is played, its name, and its runs by name, target by target.

    Raises:
        UsageError: the file cannot be read, or a target cannot be played.
    """
    from silva.cli.config import load, of_values
    from silva.redteam.plan import planned
    from silva.redteam.plan_file import PlanFile
    from silva.rollout.config import RolloutConfig

    plan = load(PlanFile, file)
    runs: dict[str, Any] = {}
    lakes: set[str] = set()
    for target in plan.each():
        values = dict(target.rollout)
        if lake is not None:
            values["lake"] = lake
        if limit is not None:
            values["tasks"] = {**values.get("tasks", {}), "limit": limit}
        settings = of_values(RolloutConfig, values, f"{file.name}: target {target.name}")
        lakes.add(settings.lake)
        runs |= planned(
            settings, target.attack, target.perturb, share=plan.share, baseline=plan.baseline, defences=target.defence
        )
    if len(lakes) > 1:
        raise UsageError(
            f"{file.name}: its targets name several lakes ({', '.join(sorted(lakes))}): say one, in rollout"
        )
    return lakes.pop(), plan.run, runs
