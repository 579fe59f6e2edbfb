"""Training as pages show it: curves as they are written, policy versions, and what data made them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from silva.console.forest import Forest
from silva.errors import SilvaError
from silva.train.curves import FILE, read_curve
from silva.train.registry import Registry
from silva.tree import Run

MOST_POINTS = 600
"""Points of one curve that a page is given; of a longer one every n-th."""


def runs(forest: Forest) -> list[dict[str, Any]]:
    """The training runs, newest first."""
    found = [run for run in forest.runs.values() if is_training(run)]
    return [
        {
            "id": run.id,
            "command": run.command,
            "algorithm": run.agent,
            "model": run.model,
            "status": run.status,
            "started": run.started,
            "finished": run.finished,
            "parents": list(run.lineage.parents),
        }
        for run in sorted(found, key=lambda run: -run.started)
    ]


def is_training(run: Run) -> bool:
    """Whether a run trained something."""
    return run.command == "train" or "curve" in run.summary


def curve(run: Run) -> list[dict[str, Any]]:
    """The points of a run: its file where it can be read (it is written step by step), else the lake's record."""
    points: list[dict[str, Any]] = [dict(point) for point in run.summary.get("curve", ())]
    output = run.config.get("output")
    folder = Path(str(output)) if output else None
    if folder is not None and (folder / FILE).is_file():
        try:
            read = read_curve(folder)
        except SilvaError:
            read = []  # another wrote a file of this name: the record stands
        if len(read) >= len(points):
            points = [{"step": point.step, **point.values} for point in read]
    stride = max(1, -(-len(points) // MOST_POINTS))
    return [_finite(point) for point in [*points[:-1:stride], *points[-1:]]]


def versions(location: str) -> list[dict[str, Any]]:
    """Policy versions of the lake, newest first.

    Raises:
        StoreError: the registry cannot be read.
    """
    found: list[dict[str, Any]] = []
    for line in Registry.open(location).lines():
        for version in line.versions:
            found.append(
                {
                    "name": version.name,
                    "line": version.line,
                    "number": version.number,
                    "status": line.status(version),
                    "head": line.is_head(version),
                    "parent": version.parent,
                    "kind": version.kind,
                    "runs": list(version.data.runs),
                    "filters": list(version.data.filters),
                    "lake_version": version.data.lake_version,
                    "samples": len(version.data.samples),
                    "metrics": version.metrics,
                    "note": version.note,
                    "by": version.by,
                    "at": version.at,
                }
            )
    return sorted(found, key=lambda each: (-each["at"], each["name"]))


def _finite(point: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if not isinstance(value, float) or math.isfinite(value) else None for name, value in point.items()
    }
