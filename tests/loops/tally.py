"""A kind of loop of its own, as a package would register it: it tallies words, one by one, and trains nothing."""

from __future__ import annotations

import os
import signal
from typing import Literal

from silva.loops.kernel.config import LoopConfig
from silva.loops.kernel.kind import Kind, Standing
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.pieces import once
from silva.loops.kernel.progress import teller
from silva.loops.kernel.stage import Nothing, Plan, Stage, Waiting, decisive
from silva.tree import Json, digest


class TallyConfig(LoopConfig):
    """Words to tally, in rounds; a word `die` kills the worker the first time, `none` ends its round, `ask`
    waits until somebody has made the file `answered`."""

    loop: Literal["tally"] = "tally"
    line: str = "tally"
    rounds: tuple[tuple[str, ...], ...]


def plan(config: TallyConfig) -> list[Stage]:
    """A count for each round, a sum over it, and the report."""
    made = Plan(config.seed, digest("tally", decisive(config.line)))
    for number, words in enumerate(config.rounds, start=1):
        made.knows(words)
        made.add("count", number)
        made.add("sum", number)
    made.add("report")
    return made.stages


def run(loop: Loop[TallyConfig], stage: Stage) -> Json:
    """Any of the stages."""
    if stage.kind == "count":
        words = loop.config.rounds[stage.round - 1]
        tell = teller(loop, stage, "words")
        lengths: dict[str, int] = {}
        for place, word in enumerate(words):
            lengths[word] = int(once(loop, stage, word, lambda word=word: _length(loop, word))["length"])
            tell(place + 1, len(words))
        return {"lengths": lengths}
    if stage.kind == "sum":
        return {"sum": sum(loop.given(f"round-{stage.round}.count")["lengths"].values())}
    told = [found["sum"] for each in loop.plan if each.kind == "sum" and (found := loop.outputs(each.name))]
    return {"sums": told}


def _length(loop: Loop[TallyConfig], word: str) -> Json:
    with (loop.folder / "made.log").open("a", encoding="utf-8") as log:
        log.write(f"{word}\n")
    if word == "none":
        raise Nothing("there is nothing to count")
    if word == "ask" and not (loop.folder / "answered").exists():
        raise Waiting("somebody must answer: make the file answered")
    mark = loop.folder / "died"
    if word == "die" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"length": len(word)}


TALLY = Kind(
    name="tally",
    config=TallyConfig,
    plan=plan,
    stages={"count": "tally", "sum": "tally", "report": "tally"},
    line=lambda stage, outputs: f"{sum(outputs['lengths'].values())} letters" if stage.kind == "count" else "",
    standing=lambda loop: Standing(facts={"tallied": len(loop.ledger.over())}, words=("tallying",)),
)
