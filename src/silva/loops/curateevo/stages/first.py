"""Stage `first`: the first curation is judged, with every seed."""

from __future__ import annotations

from silva.curate.curation.source import named
from silva.errors import UsageError
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.judging import Judge
from silva.loops.curateevo.keeping import keep, told
from silva.loops.curateevo.state import curations
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Judge it.

    Raises:
        UsageError: it cannot be judged: there is nothing to begin with.
    """
    config = loop.config
    curation = named(config.initial)
    curations(loop).write(curation, author=config.initial, phase="initial", corpus=str(loop.given("raw")["digest"]))
    judged = Judge(loop, stage).judge([curation], range(config.accept.seeds))[0]
    if judged.why:
        raise UsageError(f"initial {config.initial}: {judged.why}; begin with another curation or recipe")
    keep(loop, judged, epoch=0, verdict="kept", why="the first")
    return {**told(loop, judged), "kept": True, "why": "the first"}
