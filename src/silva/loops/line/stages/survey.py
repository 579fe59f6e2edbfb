"""Stage `survey`: the expert plays every task once."""

from __future__ import annotations

import asyncio

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.play import candidates, play, told
from silva.loops.line.weights import renderer
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Play.

    Raises:
        UsageError: no task is left, or the environment is not known.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    tasks = asyncio.run(candidates(loop))
    name = loop.run_name(stage)
    result = play(loop, stage, name, tasks, {"policy": "expert", "renderer": renderer(loop), "seed": stage.seed})
    return {"run": name, **told(result)}
