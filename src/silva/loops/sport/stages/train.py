"""Stage `train`: from SFT, or from the version that played, on the round's preferences."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.stages import train
from silva.loops.sport.config import SportConfig
from silva.loops.sport.lineup import start
from silva.tree import Json


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Train.

    Raises:
        As every line's.
    """
    return train.run(loop, stage, start(loop, stage))
