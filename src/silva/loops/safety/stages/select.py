"""Stage `select`: safe siblings as rows, or pairs of siblings, with exact ids; rows of the expert stand beside."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from silva.curate.pairs import read_pairs
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.judged import at_the_word_of
from silva.loops.line.play import learnt
from silva.loops.line.selected import kept, tell
from silva.loops.line.weights import context
from silva.loops.safety.config import SafetyConfig
from silva.train.algorithms.preference import laid_out
from silva.train.lake_samples import Refused, collect
from silva.train.sample import Sample
from silva.train.step_pairs import preferences, step_samples
from silva.train.stretch import Reading
from silva.train.truncation import fit
from silva.tree import Json


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Select; write the samples, chosen and rejected in turns where they are pairs.

    Raises:
        Nothing: no pair has exact ids.
        Waiting: people's word is wanted, and they have rated too few pairs.
    """
    settings = loop.config.rounds[stage.round - 1]
    source, limit = Random(stage.seed), context(loop)
    found = read_pairs(loop.folder / str(loop.given(f"round-{stage.round}.explore")["file"]))
    found = at_the_word_of(settings.judged_by, loop, found, found, loop.config.rated)
    steps = [each.steps for each in found]
    if settings.control == "swapped":
        steps = [(worse, better) for better, worse in steps]
    if settings.algorithm.name == "dpo":
        with Lake.open(loop.lake, mode="read") as lake:
            pairs, left = preferences(lake, steps)
        exact = len(pairs)
        samples = laid_out([pair for pair in pairs if max(len(pair.chosen), len(pair.rejected)) <= limit])
    else:
        with Lake.open(loop.lake, mode="read") as lake:
            known = step_samples(lake, (better for better, _ in steps))
        chosen = [each for better, _ in steps if not isinstance(each := known[better], Refused)]
        left = [each.why for better, _ in steps if isinstance(each := known[better], Refused)]
        exact, count = len(chosen), round(settings.benign * len(chosen))
        wanted = len(chosen) + count if settings.control == "benign" else count
        fitted = fit(
            [*([] if settings.control == "benign" else chosen), *_benign(loop, settings.tags, source, wanted)],
            limit,
            "truncate",
        )
        tell(stage, fitted, limit)
        samples = list(fitted.samples)
    if not exact:
        raise Nothing(f"none of {len(found)} pairs has exact ids; the first: {left[0]}")
    return kept(
        loop,
        stage,
        samples,
        run=loop.given(f"round-{stage.round}.attack")["run"],
        reading={"pairs": "alternating"} if settings.algorithm.name == "dpo" else {},
        pairs=exact,
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
