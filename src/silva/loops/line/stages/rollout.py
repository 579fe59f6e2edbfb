"""Stage `rollout`: the head plays some of `train`, as often as a group."""

from __future__ import annotations

from collections.abc import Callable

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import head_of
from silva.loops.line.play import drawn, learnt, play, tasks_named, told
from silva.loops.line.weights import playing
from silva.rollout.guided import Guidance
from silva.tree import Json


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
    more = {
        "model": playing(loop, version),
        "group": settings.group,
        "seed": stage.seed,
        "sampling": {"temperature": settings.temperature, "logprobs": True},
        **(further or {}),
    }
    result = play(loop, stage, name, tasks_named(loop, ids), more, guidance)
    return {"run": name, "version": version, **told(result)}
