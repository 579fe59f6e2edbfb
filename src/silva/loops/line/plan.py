"""What the plans of a line's loops share: what decides the stages before the rounds, and the stages at the end. Pure.

How many episodes run at once and where, or how often a checkpoint is written, may change in the midst of a loop.
"""

from __future__ import annotations

from typing import Any

from silva.loops.kernel.stage import Plan
from silva.loops.line.config import LineConfig

UNDECISIVE: Any = {
    "play": {"pool", "deadlines", "hosts", "engine", "on", "ray"},
    "rounds": {"__all__": {"checkpoint_every", "divergence"}},
}
"""What changes no result."""
RAISED = ("tokens", "seconds", "usd", "price")
"""Of `play.budget` what bounds a whole run: a loop whose run has spent it goes on when it is raised."""

BEFORE = ("policy", "tasks", "play", "measure", "judge", "env", "line", "seed")
"""What decides the stages before the rounds."""


def decisive_values(config: LineConfig) -> dict[str, Any]:
    """The configuration without what changes no result."""
    whole = config.model_dump(mode="json", exclude=UNDECISIVE)
    whole["play"]["budget"] |= dict.fromkeys(RAISED)
    for each in whole["rounds"]:
        if each.get("judged_by") == "verifier":
            del each["judged_by"]  # as it was before people could be asked: begun loops stay the same
    return whole


def end(plan: Plan, config: LineConfig, prove: bool = True) -> None:
    """Add the stages after the rounds. Their names count the rounds, so that more may follow."""
    if prove and config.tasks.test:
        plan.add("prove", name=f"prove-after-{len(config.rounds)}")
    plan.add("report", name=f"report-after-{len(config.rounds)}")
