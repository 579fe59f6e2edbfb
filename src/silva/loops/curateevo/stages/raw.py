"""Stage `raw`: the walks that the loop makes for its corpus, and what there is of it all."""

from __future__ import annotations

import asyncio

from silva.curate.rows import Row
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.curateevo.config import CurateEvoConfig, RawPlay
from silva.loops.curateevo.hindsight import brought_about
from silva.loops.curateevo.raw import corpus, held_out, of_part
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.config import LineTasks
from silva.loops.line.play import candidates, drawn, play, tasks_named
from silva.loops.roles import born
from silva.tree import Json, Task


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Play, and read.

    Raises:
        UsageError: a task file cannot be read, or all its tasks are held out; or the corpus holds nothing.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    runs: list[str] = []
    for number, wanted in enumerate(loop.config.raw.play, 1):
        name = f"{loop.config.line}.raw.{number}"
        seed = seed_of(loop.config.seed, name)
        policy = "solution" if wanted.born else wanted.policy
        more = {"policy": policy, "slips": wanted.slips, "group": wanted.group, "seed": seed}
        play(loop, stage, name, _tasks(loop, wanted, seed), more)
        runs.append(name)
    achieved: dict[str, list[tuple[str, int]]] = {}
    if loop.config.raw.hindsight:
        envs = {task.env for task in tasks_named(loop, of_part(loop, "train"))}
        failed = [row for row in corpus(loop, runs).rows.values() if _failed(row, envs)]
        achieved = asyncio.run(brought_about(loop, failed, held_out(loop)))
    found = corpus(loop, runs, achieved)
    said = [walk["success"] for walk in found.walks]
    return {
        "runs": runs,
        "sources": list(loop.config.raw.sources),
        "walks": len(found.walks),
        "turns": found.turns,
        "successes": said.count(True),
        "failures": said.count(False),
        "unlabelled": said.count(None),
        "left_out": found.left_out,
        "achieved": achieved,
        "digest": found.digest,
        "notes": list(found.notes[:20]),
    }


def _failed(row: Row, envs: set[str]) -> bool:
    walked = row.trajectory
    return walked is not None and walked.env in envs and not walked.outcome.success


def _born(loop: Loop[CurateEvoConfig], wanted: RawPlay, seed: int) -> list[Task]:
    hidden = held_out(loop)
    with Lake.open(loop.lake, mode="read") as lake:
        known = {task.id: task for task, how in born(lake, wanted.born) if how.verdict == "accepted" and how.solution}
    tasks = [known[each] for each in drawn(list(known), wanted.limit, seed)]
    tasks = [task for task in tasks if not {task.id, task.instruction} & hidden]
    if not tasks:
        raise UsageError(f"raw.play: run {wanted.born} has no accepted task with a solution; name a growth's run")
    return tasks


def _tasks(loop: Loop[CurateEvoConfig], wanted: RawPlay, seed: int) -> list[Task]:
    if wanted.born:
        return _born(loop, wanted, seed)
    if wanted.file is None and not wanted.split:
        return tasks_named(loop, drawn(of_part(loop, "train"), wanted.limit, seed))
    settings = LineTasks(split=wanted.split, file=wanted.file)
    found = asyncio.run(candidates(loop, settings))
    hidden = held_out(loop)
    tasks = [task for task in found if not {task.id, task.instruction} & hidden][: wanted.limit]
    if not tasks:
        raise UsageError(f"raw.play: all {len(found)} tasks are held out; name others")
    return tasks
