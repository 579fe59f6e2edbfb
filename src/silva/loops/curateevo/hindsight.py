"""What failed walks of the raw corpus brought about, where their environment can tell (port `Hindsight`).

    failed walk ─▶ its actions, in its task's place ─▶ goals reached, and when ─▶ the opening as it would ask for them

A curation may then show such a walk under what it did (`in_hindsight`; Andrychowicz et al., Hindsight Experience
Replay,
2017). What a held-out task asks is no goal here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from silva.curate.curation.corpus import asked
from silva.curate.rows import Row
from silva.curate.turn import read_walk
from silva.envs import Registry as Environments
from silva.envs.handle import EnvironmentHandle
from silva.lake import Lake
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.kernel.loop import Loop
from silva.rollout import RolloutConfig
from silva.rollout.run import host_pool
from silva.tree import Task


async def brought_about(
    loop: Loop[CurateEvoConfig], rows: Sequence[Row], hidden: Collection[str]
) -> dict[str, list[tuple[str, int]]]:
    """By trajectory, the words that ask for what it brought about, and after which turn; the last reached first.

    Raises:
        UsageError: the environment cannot say.
        EnvError: it broke.
    """
    config = loop.config
    settings = RolloutConfig(env=(config.env,), hosts=config.play.hosts, deadlines=config.play.deadlines)
    made: dict[str, list[tuple[str, int]]] = {}
    with Lake.open(loop.lake, mode="read") as lake:
        async with host_pool(config.env, Environments.load().entry(config.env), settings) as pool, pool.lease() as env:
            for row in rows:
                task = lake.task(row.trajectory) if row.trajectory is not None else None
                if task is not None:
                    made[row.id] = await _of(env, task, row, hidden)
    return {key: found for key, found in made.items() if found}


async def _of(env: EnvironmentHandle, task: Task, row: Row, hidden: Collection[str]) -> list[tuple[str, int]]:
    walk = read_walk(row.nodes)
    opening = asked(row.nodes)
    found: list[tuple[str, int]] = []
    for each in await env.achieved(task, [turn.action.message for turn in walk.turns]):
        other = await env.task(task, each.goal)
        if {other.id, other.instruction, each.goal.words} & set(hidden):
            continue
        # What stands in the opening besides what is asked (a first look around) stays as it was.
        swapped = task.instruction and other.instruction and task.instruction in opening
        words = opening.replace(task.instruction, other.instruction) if swapped else each.goal.words
        found.append((words, each.turn))
    return sorted(found, key=lambda each: -each[1])
