"""What the page of the data engine asks: its jobs, one plan as a graph with its steps as they stand, and candidates.

HOME/jobs ─ silva.elf.seen ─▶ plain data         HOME/candidates ─▶ what a person must see before a promotion
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from silva.elf.derived import Assets, Derived
from silva.elf.plan import Plan, drawn
from silva.elf.running.job import default_home
from silva.elf.seen import seen_job, seen_jobs


def home_of(lake: str) -> Path:
    """The engine's home that belongs to a lake."""
    return default_home(lake)


def overview(lake: str) -> dict[str, Any]:
    """Jobs, candidates that wait, and assets."""
    home = home_of(lake)
    kept = Assets(home)
    return {
        "home": str(home),
        "jobs": seen_jobs(home),
        "candidates": [_shown(each) for each in kept.candidates()],
        "assets": [
            {"name": each.name, "version": each.version, "kind": each.kind, "by": each.by, "at": each.promoted}
            for each in kept.assets()
        ],
    }


def job(lake: str, name: str) -> dict[str, Any]:
    """One job: each step with its place in the graph (`layer`: how many steps stand before it at most).

    Raises:
        UsageError: there is none.
    """
    found = seen_job(home_of(lake), name)
    layers: dict[str, int] = {}
    for _ in found["plan"]:  # at most so many rounds until all sources are placed
        for step in found["plan"]:
            sources = [layers.get(each, 0) for each in step["from"]]
            layers[step["id"]] = max(sources, default=-1) + 1
    for step in found["plan"]:
        step["layer"] = layers[step["id"]]
    return found


def promote(lake: str, candidate: str, name: str, by: str) -> dict[str, Any]:
    """Let a candidate become an asset, under a person's name.

    Raises:
        UsageError: there is no such candidate, or its tests did not hold.
    """
    kept = Assets(home_of(lake))
    made = kept.promote(kept.candidate(candidate), name=name, by=by)
    return {"name": made.name, "version": made.version, "by": made.by}


def _shown(each: Derived) -> dict[str, Any]:
    return {
        "id": each.id,
        "name": each.name,
        "kind": each.kind,
        "summary": each.summary,
        "intent": each.intent,
        "made": each.made,
        "does": drawn(Plan(steps=each.steps)) if each.steps else each.source,
        "trials": [msgspec.structs.asdict(trial) for trial in each.trials],
        "measured": each.measured,
    }
