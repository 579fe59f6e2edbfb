"""Stage `raw`: the walks that the loop makes for its corpus, and what there is of it all."""

from __future__ import annotations

import asyncio

from silva.curate.rows import Row
from silva.errors import UsageError
from silva.loops.curateevo.config import CurateEvoConfig, RawPlay
from silva.loops.curateevo.hindsight import brought_about
from silva.loops.curateevo.raw import corpus, held_out, of_part
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.config import LineTasks
from silva.loops.line.play import candidates, drawn, play, tasks_named
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
        more = {"policy": wanted.policy, "slips": wanted.slips, "group": wanted.group, "seed": seed}
        play(loop, stage, name, _tasks(loop, wanted, seed), more)
        runs.append(name)
    achieved: dict[str, list[tuple[str, int]]] = {}
    if loop.config.raw.hindsight:
        failed = [row for row in corpus(loop, runs).rows.values() if row.source in runs and not _succeeded(row)]
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


def _succeeded(row: Row) -> bool:
    return row.trajectory is not None and bool(row.trajectory.outcome.success)


def _tasks(loop: Loop[CurateEvoConfig], wanted: RawPlay, seed: int) -> list[Task]:
    if wanted.file is None and not wanted.split:
        return tasks_named(loop, drawn(of_part(loop, "train"), wanted.limit, seed))
    settings = LineTasks(split=wanted.split, file=wanted.file)
    found = asyncio.run(candidates(loop, settings))
    hidden = held_out(loop)
    tasks = [task for task in found if not {task.id, task.instruction} & hidden][: wanted.limit]
    if not tasks:
        raise UsageError(f"raw.play: all {len(found)} tasks are held out; name others")
    return tasks
