"""Stage `rollout`: the head plays some of `train`, as often as a group; of other stages, tasks that they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import head_of
from silva.loops.line.play import drawn, learnt, play, tasks_named, told
from silva.loops.line.weights import playing
from silva.rollout import RunResult
from silva.rollout.guided import Guidance
from silva.tree import Json, Task


def run(
    loop: Loop[LineConfig],
    stage: Stage,
    guidance: Callable[[bool], Guidance] | None = None,
    further: Json | None = None,
) -> Json:
    """Play.

    Args:
        loop: whose head.
        stage: the round's.
        guidance: gives what people say to it; told whether the run goes on.
        further: fields of the rollout's configuration besides.

    Raises:
        UsageError: no task is left, or the environment or model is not known.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.rounds[stage.round - 1]
    version = head_of(loop, stage)
    ids = drawn(learnt(loop, settings.tags), settings.tasks, stage.seed)
    name = loop.run_name(stage)
    result = attempts(loop, stage, name, version, tasks_named(loop, ids), further, guidance)
    return {"run": name, "version": version, **told(result)}


def attempts(
    loop: Loop[LineConfig],
    stage: Stage,
    name: str,
    version: str,
    tasks: Sequence[Task],
    further: Json | None = None,
    guidance: Callable[[bool], Guidance] | None = None,
) -> RunResult:
    """A version plays tasks as a round says: as often as a group, warm, with log-probabilities.

    Args:
        loop: whose.
        stage: the round's.
        name: of the run.
        version: that plays.
        tasks: to play.
        further: as of `run`.
        guidance: as of `run`.

    Raises:
        UsageError, MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.rounds[stage.round - 1]
    more = {
        "model": playing(loop, version),
        "group": settings.group,
        "seed": stage.seed,
        "sampling": {"temperature": settings.temperature, "logprobs": True},
        **(further or {}),
    }
    return play(loop, stage, name, tasks, more, guidance)
