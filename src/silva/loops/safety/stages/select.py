"""Stage `select`: safe siblings as rows, or pairs of siblings, with exact ids; rows of the expert stand beside."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from silva.curate.pairs import read_pairs
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.play import learnt
from silva.loops.line.selected import kept, tell
from silva.loops.line.weights import context
from silva.loops.safety.config import SafetyConfig
from silva.train.algorithms.preference import Preference, laid_out
from silva.train.lake_samples import collect
from silva.train.sample import Sample
from silva.train.step_pairs import preferences
from silva.train.stretch import Reading
from silva.train.truncation import fit
from silva.tree import Json


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Select; write the samples, chosen and rejected in turns where they are pairs.

    Raises:
        Nothing: no pair has exact ids.
    """
    settings = loop.config.rounds[stage.round - 1]
    source = Random(stage.seed)
    found = read_pairs(loop.folder / str(loop.given(f"round-{stage.round}.explore")["file"]))
    with Lake.open(loop.lake, mode="read") as lake:
        pairs, left = preferences(lake, [each.steps for each in found])
    if not pairs:
        raise Nothing(f"none of {len(found)} pairs has exact ids; the first: {left[0]}")
    if settings.control == "swapped":
        pairs = [Preference(chosen=pair.rejected, rejected=pair.chosen) for pair in pairs]
    limit = context(loop)
    if settings.algorithm.name == "dpo":
        pairs = [pair for pair in pairs if max(len(pair.chosen), len(pair.rejected)) <= limit]
        samples = laid_out(pairs)
    else:
        chosen = [pair.chosen for pair in pairs]
        count = round(settings.benign * len(chosen))
        wanted = len(chosen) + count if settings.control == "benign" else count
        fitted = fit(
            [*([] if settings.control == "benign" else chosen), *_benign(loop, settings.tags, source, wanted)],
            limit,
            "truncate",
        )
        tell(stage, fitted, limit)
        samples = list(fitted.samples)
    return kept(
        loop,
        stage,
        samples,
        run=loop.given(f"round-{stage.round}.attack")["run"],
        reading={"pairs": "alternating"} if settings.algorithm.name == "dpo" else {},
        pairs=len(pairs),
        inexact=len(left),
    )


def _benign(loop: Loop[SafetyConfig], tags: Sequence[str], source: Random, count: int) -> list[Sample]:
    """So many of the expert's attempts at the round's tasks without an attack, none twice before all stand once."""
    train = set(learnt(loop, tags))
    with Lake.open(loop.lake, mode="read") as lake:
        attempts = [
            each for each in lake.trajectories(run_id=str(loop.given("survey")["run"])) if each.task_id in train
        ]
        known = list(collect(lake, attempts, Reading(logprobs="optional")).samples)
    chosen: list[Sample] = []
    while known and len(chosen) < count:
        chosen += source.sample(known, min(len(known), count - len(chosen)))
    return chosen
