"""Stage `rollout`: the newest version plays some of the present tasks, as often as a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    awake = without(known, resting(loop, stage.round, settings.rest), settings.tasks)
    chosen = [known[each] for each in chosen_of(awake, settings.tasks, loop.config.grow.played, stage.seed)]
    name = loop.run_name(stage)
    result = attempts(loop, stage, name, version, chosen)
    return {
        "run": name,
        "version": version,
        "known": len(known),
        "played": [task.id for task in chosen],
        "synthesised": sum(task.born is not None for task in chosen),
        "mixed": mixed(result.trajectories),
        "mastered": mastered(result.trajectories),
        **told(result),
    }


def resting(loop: Loop[CoEvolveConfig], round: int, rounds: int) -> list[str]:
    """Tasks whose last group, in so many rounds before this one, succeeded in every attempt, those mastered longest ago
    last."""
    found = dict[str, bool]()
    before = [each for each in loop.plan if each.kind == "rollout" and round - rounds <= each.round < round]
    for said in filter(None, (loop.outputs(each.name) for each in before)):
        for task in said["played"]:
            found.pop(task, None)
            found[task] = task in said["mastered"]
    return [task for task, done in reversed(found.items()) if done]


def without(known: Mapping[str, Task], resting: Sequence[str], count: int | None) -> dict[str, Task]:
    """The tasks but those that rest, of which as many stay as it takes to have so many."""
    there = [each for each in resting if each in known]
    spare = len(known) - (len(known) if count is None else count)
    left = set(there[: max(0, spare)])
    return {name: task for name, task in known.items() if name not in left}


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


def mastered(trajectories: list[Trajectory]) -> list[str]:
    """Tasks of which every attempt succeeded."""
    found: dict[str, bool] = {}
    for each in counted(trajectories):
        found[each.task_id] = found.get(each.task_id, True) and bool(each.outcome.success)
    return sorted(task for task, all_of_it in found.items() if all_of_it)
