"""Stage `select`: the line's, from the tasks that the round was about."""

from __future__ import annotations

from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.tasks import taught
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.stages import select
from silva.tree import Json


def run(loop: Loop[CoEvolveConfig], stage: Stage) -> Json:
    """Select.

    Raises:
        Nothing, SampleError: as the line's.
    """
    settings = loop.config.rounds[stage.round - 1]
    if settings.source == "expert":
        return select.run(loop, stage, taught(loop))
    return select.run(loop, stage, loop.given(f"round-{stage.round}.rollout")["played"])
