"""What a loop has come to, read from its ledger: the curation in force, and what stages before a stage have found."""

from __future__ import annotations

import msgspec

from silva.curate.curation.source import Curation
from silva.curate.curation.versions import Curations, FailedPoint
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json

DECIDING = ("first", "effect", "efficiency")


def present(loop: Loop[CurateEvoConfig], before: Stage | None = None) -> Json | None:
    """What the last deciding stage, before a stage or of all, says of the curation in force; None where none has."""
    found: Json | None = None
    for stage in loop.plan:
        if before is not None and stage.name == before.name:
            break
        outputs = loop.outputs(stage.name) if stage.kind in DECIDING else None
        found = outputs if outputs is not None else found
    return found


def points(loop: Loop[CurateEvoConfig], number: int) -> tuple[FailedPoint, ...]:
    """The failed points of an epoch; none where nobody diagnosed."""
    outputs = loop.outputs(f"epoch-{number}.diagnose")
    return () if outputs is None else tuple(msgspec.convert(each, FailedPoint) for each in outputs["points"])


def curations(loop: Loop[CurateEvoConfig]) -> Curations:
    """The curations of its lake, in its own line."""
    return Curations(loop.lake, loop.config.line, make=True)


def source(loop: Loop[CurateEvoConfig], digest: str) -> Curation:
    """The text of a curation of the loop."""
    kept = curations(loop)
    return kept.source(kept.find(digest))
