"""Stage `rollout`: the newest version plays some of the present tasks, as often as a group."""

from __future__ import annotations

from collections.abc import Mapping

from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.tasks import present
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.head import head_of
from silva.loops.line.play import drawn, told
from silva.loops.line.stages.rollout import attempts
from silva.report.summary import counted
from silva.tree import Json, Task, Trajectory


def run(loop: Loop[CoEvolveConfig], stage: Stage) -> Json:
    """Play.

    Raises:
        UsageError, MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.rounds[stage.round - 1]
    version = head_of(loop, stage)
    known = {task.id: task for task in present(loop, stage)}
    chosen = [known[each] for each in chosen_of(known, settings.tasks, loop.config.grow.played, stage.seed)]
    name = loop.run_name(stage)
    result = attempts(loop, stage, name, version, chosen)
    return {
        "run": name,
        "version": version,
        "known": len(known),
        "played": [task.id for task in chosen],
        "synthesised": sum(task.born is not None for task in chosen),
        "mixed": mixed(result.trajectories),
        **told(result),
    }


def chosen_of(known: Mapping[str, Task], count: int | None, share: float | None, seed: int) -> list[str]:
    """So many of the tasks; of them the share that is asked for has grown, as far as there are so many."""
    new = [each for each, task in known.items() if task.born is not None]
    if count is None or share is None or not new:
        return drawn(list(known), count, seed)
    old = [each for each in known if each not in set(new)]
    grown = drawn(new, max(round(share * count), count - len(old)), seed)
    return [*drawn(old, count - len(grown), seed), *grown]


def mixed(trajectories: list[Trajectory]) -> int:
    """Groups with rewards that differ: what GRPO can learn from."""
    rewards: dict[str, set[float | None]] = {}
    for each in counted(trajectories):
        rewards.setdefault(each.task_id, set()).add(each.outcome.score)
    return sum(len(each - {None}) > 1 for each in rewards.values())
