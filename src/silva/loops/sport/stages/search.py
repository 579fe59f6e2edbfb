"""Stages `search` and `rollout`: the newest version plays the round's tasks.

search    n candidates at every turn, each in its own restored state; a verifier picks; siblings stay on the tree
rollout   each task as often as a group, to be compared as whole tries
"""

from __future__ import annotations

import math

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.play import drawn, learnt, tasks_named, told
from silva.loops.line.stages.rollout import attempts
from silva.loops.sport.config import SportConfig
from silva.loops.sport.lineup import drawing_seed, player
from silva.loops.sport.made import made_for
from silva.loops.sport.searched import cost, searching
from silva.tree import Json, Task


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Play.

    Raises:
        UsageError: no task is left, or the environment, the model or the verifier is not known.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    version = player(loop, stage)
    name = loop.run_name(stage)
    tasks = _tasks(loop, stage)
    if stage.kind == "search":
        more = {"group": 1, **searching(loop.config.search_of(stage.round))}
    else:
        more = {"group": _group(loop, stage, len(tasks))}
    result = attempts(loop, stage, name, version, tasks, more)
    return {"run": name, "version": version, **told(result), **cost(loop.lake, name)}


def _tasks(loop: Loop[SportConfig], stage: Stage) -> list[Task]:
    """What the round plays: tasks made for it, or some of `train`."""
    settings = loop.config.rounds[stage.round - 1]
    if loop.config.synthesis is not None:
        return made_for(loop, stage.round)
    return tasks_named(loop, drawn(learnt(loop, settings.tags), settings.tasks, drawing_seed(loop, stage)))


def _group(loop: Loop[SportConfig], stage: Stage, tasks: int) -> int:
    """How often each task is played: as often as takes the steps that the same iteration of another arm took."""
    config = loop.config
    settings = config.rounds[stage.round - 1]
    if settings.steps_of is None:
        return settings.group
    place = config.iteration(stage.round) - 1
    number = [each for each in config.of_arm(settings.steps_of) if config.rounds[each - 1].searches][place]
    found = loop.outputs(f"round-{number}.search")
    if found is None:
        raise Nothing(f"steps_of {settings.steps_of!r}: its search of round {number} gave nothing")
    return max(2, math.ceil(found["steps"] / max(1.0, found["turns"] / found["episodes"] * tasks)))
