"""Stage `prove`: the head against SFT on `test`, which no decision has seen."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.stages import decide
from silva.loops.sport.config import SportConfig
from silva.loops.sport.lineup import sft_of
from silva.tree import Json


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Prove.

    Raises:
        As every line's.
    """
    return decide.prove(loop, stage, sft_of(loop))
