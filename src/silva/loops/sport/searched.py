"""A round's search as a rollout is asked for it, and what it came to: turns, ties, environment steps, tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from silva.lake import Lake
from silva.loops.sport.config import SearchConfig
from silva.report.summary import counted
from silva.tree import Json

STAGE = "candidates"
"""The stage of a turn that searches, and the attribute of a trajectory that tells how it went."""


def searching(search: SearchConfig) -> dict[str, Any]:
    """The stages of a rollout that searches so."""
    options = {name: each for name, each in {**search.also, search.verifier: search.options}.items() if each}
    asked = {"n": search.candidates, "verifier": search.verifier, "options": options}
    return {"stages": {STAGE: asked | ({"also": list(search.also)} if search.also else {})}}


def cost(lake: str, run: str) -> Json:
    """What a run took in all: `steps` taken in the environment and in copies of it, and what searches counted.

    Args:
        lake: its location.
        run: its name; one that did not search has its own turns alone.
    """
    sums: Counter[str] = Counter()
    usd = 0.0
    ways: set[str] = set()
    with Lake.open(lake, mode="read") as reading:
        trajectories = list(counted(reading.trajectories(run_id=run)))
    for each in trajectories:
        said: dict[str, Any] = each.attributes.get(STAGE, {})
        facts = said.get("facts", {})
        sums["turns"] += each.turns
        sums["steps"] += each.turns + said.get("tried", 0) + said.get("replayed", 0) + facts.get("steps", 0)
        for name in ("searches", "drawn", "distinct", "tried", "equal", "tied"):
            sums[name] += said.get(name, 0)
        sums["prompt_tokens"] += each.usage.prompt_tokens
        sums["completion_tokens"] += each.usage.completion_tokens
        usd += each.usage.usd
        ways.update(said.get("ways", ()))
    return {**sums, "usd": usd, "ways": sorted(ways)}
