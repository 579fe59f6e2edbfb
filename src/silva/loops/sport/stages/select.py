"""Stage `select`: what a round trains on, with exact ids.

expert        its attempts at `train`, to imitate
steps         pairs of siblings of this round and, from SFT, of all rounds before: to prefer, or the picks to imitate
tries         whole tries of the same rounds, the best of a task against its worst, cut where they part
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.pairs import StepPair, read_pairs
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.judged import at_the_word_of
from silva.loops.line.play import drawn, learnt
from silva.loops.line.selected import kept, tell
from silva.loops.line.weights import context
from silva.loops.sport.config import SportConfig
from silva.loops.sport.lineup import learnt_from
from silva.train.algorithms.preference import Preference, laid_out
from silva.train.lake_samples import collect
from silva.train.pairs import pairs
from silva.train.sample import Sample
from silva.train.step_pairs import preferences
from silva.train.stretch import Reading
from silva.train.truncation import fit
from silva.tree import Json


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Select; write the samples, chosen and rejected in turns where they are pairs.

    Raises:
        Nothing: nothing is left to learn from.
        Waiting: people's word is wanted, and they have rated too few pairs of this round.
        SampleError: a trajectory's tokens are not known.
    """
    settings = loop.config.rounds[stage.round - 1]
    if settings.source == "expert":
        return _taught(loop, stage)
    found, more = _tries(loop, stage) if settings.compare == "tries" else _steps(loop, stage)
    limit = context(loop)
    fitting = [pair for pair in found if max(len(pair.chosen), len(pair.rejected)) <= limit]
    if not fitting:
        raise Nothing(f"none of {len(found)} pairs fits into the {limit} ids the policy reads")
    more |= {"pairs": len(fitting), "dropped": len(found) - len(fitting)}
    if settings.algorithm.name == "dpo":
        return kept(loop, stage, laid_out(fitting), reading={"pairs": "alternating"}, **more)
    picks = {(pair.chosen.trajectory_id, pair.chosen.actions[-1].node_id): pair.chosen for pair in fitting}
    return kept(loop, stage, list(picks.values()), **more)


def _steps(loop: Loop[SportConfig], stage: Stage) -> tuple[list[Preference], Json]:
    rounds = learnt_from(loop, stage, "pairs")
    each_round = [read_pairs(loop.folder / str(loop.given(name)["file"])) for name in rounds]
    found: list[StepPair] = [pair for of_round in each_round for pair in of_round]
    if not found:
        raise Nothing("no round that is learnt from has a pair")
    judged_by = loop.config.rounds[stage.round - 1].judged_by
    found = at_the_word_of(judged_by, loop, found, each_round[-1], loop.config.rated)
    with Lake.open(loop.lake, mode="read") as lake:
        made, left = preferences(lake, [each.steps for each in found])
    if not made:
        raise Nothing(f"none of {len(found)} pairs has exact ids; the first: {(left or ['there is none'])[0]}")
    return made, {"run": loop.given(rounds[-1])["run"], "rounds": len(rounds), "inexact": len(left)}


def _tries(loop: Loop[SportConfig], stage: Stage) -> tuple[list[Preference], Json]:
    rounds = learnt_from(loop, stage, "rollout")
    samples: list[Sample] = []
    with Lake.open(loop.lake, mode="read") as lake:
        for name in rounds:
            tried = lake.trajectories(run_id=str(loop.given(name)["run"]))
            samples += collect(lake, [each for each in tried if each.outcome.score is not None]).samples
    found = pairs(samples, loop.config.pairs.margin)
    if not found:
        raise Nothing(f"of {len(samples)} tries no two at one task came out differently")
    made = [Preference.of(pair) for pair in found]
    return made, {"run": loop.given(rounds[-1])["run"], "rounds": len(rounds), "of": len(samples)}


def _taught(loop: Loop[SportConfig], stage: Stage) -> Json:
    """The expert's attempts at the tasks that are learnt from."""
    settings = loop.config.rounds[stage.round - 1]
    run = str(loop.given("survey")["run"])
    train: Sequence[str] = drawn(learnt(loop, settings.tags), settings.select.limit, stage.seed)
    with Lake.open(loop.lake, mode="read") as lake:
        attempts = [each for each in lake.trajectories(run_id=run) if each.task_id in set(train)]
        taken = list(collect(lake, attempts, Reading(logprobs="optional")).samples)
    least = settings.select.least_reward
    good = [each for each in taken if least is None or each.reward >= least]
    limit = context(loop)
    fitted = fit(good, limit, "truncate")
    tell(stage, fitted, limit)
    if not fitted.samples:
        raise Nothing(f"none of the expert's {len(taken)} attempts is left")
    return kept(loop, stage, fitted.samples, run=run, truncated=fitted.truncated, dropped=fitted.dropped)
