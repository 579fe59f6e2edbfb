"""Stage `start`: nothing is done in it; what curations are judged by is kept under its name."""

from __future__ import annotations

from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Say where it is."""
    return {"pieces": f"pieces/{stage.name}"}
