"""Stage `select`: from the trees of a round to a file of samples, with the log-probabilities training needs.

run ─▶ samples ─▶ cut to what the policy reads ─▶ by reward, by group ─▶ selected.samples
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.play import drawn, learnt
from silva.loops.line.selected import kept, tell
from silva.loops.line.weights import context, with_logprobs
from silva.train.algorithms.advantages import alike
from silva.train.lake_samples import collect
from silva.train.sample import Sample
from silva.train.stretch import Reading
from silva.train.truncation import fit
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage, ids: Sequence[str] | None = None) -> Json:
    """Select; write the samples.

    Args:
        loop: whose round.
        stage: that selects.
        ids: of the tasks that may be learnt from; those of `train` with the round's tags where none are given.

    Raises:
        Nothing: no attempt, or no group whose rewards differ, is left.
        SampleError: a trajectory's tokens are not known.
    """
    import numpy as np

    settings = loop.config.rounds[stage.round - 1]
    expert = settings.source == "expert"
    source = loop.given("survey" if expert else f"round-{stage.round}.rollout")
    compares = settings.algorithm.name != "sft"
    mine = set(learnt(loop, settings.tags) if ids is None else ids)
    taken = _of_run(loop, str(source["run"]), mine, expert)
    limit = context(loop)
    fitted = fit(taken, limit, "truncate")
    tell(stage, fitted, limit)
    samples = list(fitted.samples)
    least = settings.select.least_reward
    if compares:
        by_task: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            if np.isfinite(sample.reward):
                by_task[sample.task_id].append(sample)
        spread = {task for task, group in by_task.items() if not alike(np.array([each.reward for each in group]))}
        samples = [sample for sample in samples if sample.task_id in spread and np.isfinite(sample.reward)]
    elif least is not None:
        samples = [sample for sample in samples if sample.reward >= least]
    chosen = set(drawn([sample.task_id for sample in samples], settings.select.limit, stage.seed))
    samples = [sample for sample in samples if sample.task_id in chosen]
    if not samples:
        wanted = "no attempt" if least is None else f"no attempt with a reward of at least {least}"
        why = "no group whose rewards differ" if compares else wanted
        long = f" ({fitted.dropped} were too long for the policy)" if fitted.dropped else ""
        raise Nothing(f"{len(taken)} samples of run {source['run']} hold {why}{long}")
    apart = 0.0
    if compares and settings.select.logprobs == "recomputed":
        samples, apart = with_logprobs(loop, str(source["version"]), samples, settings.temperature)
    rewards = [sample.reward for sample in taken if np.isfinite(sample.reward)]
    return kept(
        loop,
        stage,
        samples,
        run=source["run"],
        of=len(taken),
        truncated=fitted.truncated,
        dropped=fitted.dropped,
        reward=float(np.mean(rewards)) if rewards else 0.0,
        logprobs_apart=apart,
    )


def _of_run(loop: Loop[LineConfig], run: str, train: set[str], expert: bool) -> list[Sample]:
    """The samples of a run's tasks that are learnt from. The expert's have no log-probabilities, and need none."""
    lake = Lake.open(loop.lake, mode="read")
    attempts = [each for each in lake.trajectories(run_id=run) if each.task_id in train]
    return list(collect(lake, attempts, Reading(logprobs="optional" if expert else "required")).samples)
