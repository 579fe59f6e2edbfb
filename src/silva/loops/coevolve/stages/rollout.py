"""Stage `rollout`: the newest version plays some of the present tasks, as often as a group."""

from __future__ import annotations

from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.tasks import present
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.head import head_of
from silva.loops.line.play import drawn, told
from silva.loops.line.stages.rollout import attempts
from silva.report.summary import counted
from silva.tree import Json, Trajectory


def run(loop: Loop[CoEvolveConfig], stage: Stage) -> Json:
    """Play.

    Raises:
        UsageError, MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.rounds[stage.round - 1]
    version = head_of(loop, stage)
    known = {task.id: task for task in present(loop, stage)}
    chosen = [known[each] for each in drawn(list(known), settings.tasks, stage.seed)]
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


def mixed(trajectories: list[Trajectory]) -> int:
    """Groups with rewards that differ: what GRPO can learn from."""
    rewards: dict[str, set[float | None]] = {}
    for each in counted(trajectories):
        rewards.setdefault(each.task_id, set()).add(each.outcome.score)
    return sum(len(each - {None}) > 1 for each in rewards.values())
