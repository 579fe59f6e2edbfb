"""Stage `diagnose`: what the present curation's policies failed at on `dev`, as failed points."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from silva.curate.curation.corpus import walk_of
from silva.curate.curation.profile import Profile
from silva.curate.rows import read
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.state import present
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.roles import make
from silva.tree import Json

MOST = 400
"""Failed walks that a diagnoser is given."""


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Diagnose.

    Raises:
        Nothing: nothing failed.
        UsageError, RoleError, ModelError: the diagnoser cannot be had.
    """
    now = present(loop, stage)
    assert now is not None
    failed: list[dict[str, Any]] = []
    for run_id in now["runs"]:
        for row in read(run_id, lake=loop.lake):
            if row.trajectory is not None and not row.trajectory.superseded and not row.trajectory.outcome.success:
                failed.append(walk_of(row))
    if not failed:
        raise Nothing(f"the policies of curation {now['digest'][:12]} failed at nothing on dev")
    diagnoser = make("diagnoser", loop.config.diagnoser.name, loop.config.diagnoser.options)
    found = asyncio.run(diagnoser.diagnose(failed[:MOST], msgspec.convert(now["profile"], Profile)))
    return {
        "digest": now["digest"],
        "failed": len(failed),
        "tasks": len({walk["task"] for walk in failed}),
        "points": [msgspec.to_builtins(point) for point in found.points],
        "acted": [msgspec.to_builtins(deed) for deed in found.acted],
    }
