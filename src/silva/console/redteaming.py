"""What the page of the red team asks: the plans of a lake, and one plan in points, maps and found failures.

runs ─ plan_of ─▶ plans          trajectories of a plan ─ silva.redteam.seen ─▶ plain data
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.console.reading import Reading
from silva.errors import UsageError
from silva.redteam.seen.failures import failures
from silva.redteam.seen.heat import heat
from silva.redteam.seen.plans import plans_of
from silva.redteam.seen.points import place, points
from silva.redteam.verdict import told
from silva.tree import Record, Trajectory

MOST = 500
"""Found failures that are shown."""


def plans(reading: Reading) -> list[dict[str, Any]]:
    """Every plan of a lake, the latest first; `live` where one of its runs has not ended."""
    return [
        {
            "name": name,
            "runs": len(runs),
            "live": any(not each.finished for each in runs),
            "models": sorted({each.model.rpartition("/")[2] for each in runs}),
            "envs": sorted({env for each in runs for env in each.envs}),
            "started": min(each.started for each in runs),
        }
        for name, runs in plans_of(reading.records()).items()
    ]


def plan(reading: Reading, name: str) -> dict[str, Any]:
    """One plan as it stands: what has not ended yet is in no figure.

    Raises:
        UsageError: the lake has no such plan.
    """
    known = reading.records()
    runs = plans_of(known).get(name) or [each for each in known if each.id.startswith(f"{name}.")]
    if not runs:
        raise UsageError(f"lake {reading.lake.location}: has no plan of the red team {name[:100]!r}")
    attempts = [each for run in runs for each in reading.lake.trajectories(run_id=run.id) if not each.superseded]
    attacked = [each for each in attempts if told(each) and not told(each).get("quiet")]
    found = failures(attacked, name)
    return {
        "name": name,
        "runs": [{"id": each.id, "live": not each.finished} for each in runs],
        "attempts": len(attacked),
        "exposed": sum(told(each).get("exposed") is not None for each in attacked),
        "points": [
            {
                **_whole(point),
                "heat": _map([each for each in attacked if place(each, name) == _place(point)], defended=True),
            }
            for point in points({name: attempts})
        ],
        "heat": _map(attacked),
        "failures": [_whole(each) for each in found[:MOST]],
        "found": len(found),
    }


def _map(attempts: list[Trajectory], *, defended: bool = False) -> dict[str, Any]:
    drawn = heat(attempts, defended=defended)
    return {**_whole(drawn), "cells": [_whole(each) for each in drawn.cells]}


def _whole(record: Record) -> dict[str, Any]:
    """A record with all its fields; what stands as it is made anew would be left out otherwise."""
    return {name: msgspec.to_builtins(value) for name, value in msgspec.structs.asdict(record).items()}


def _place(point: Any) -> tuple[str, ...]:
    return point.plan, point.model, point.agent, point.env, point.defence
