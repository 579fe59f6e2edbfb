"""Playing tasks as a run of the loop: begun once, gone on with by its name.

A run that was begun is gone on with by its name: nothing that has ended is played again, but for what was lost.

    places ─▶ a part: model and hosts started anew ─▶ all ended ─▶ attempts lost? (`silva.loops.line.lost`)
                ▲                                                     │ no: the stage goes on
                └──────────────────── yes, `PARTS` times at most ─────┴▶ the stage fails; begun again, it plays them
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from silva.envs import Registry as Environments
from silva.envs.errors import EnvError
from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.lake.durable import write_whole
from silva.lake.layout import is_lake
from silva.lake.place import place
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.progress import teller
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig, LineTasks
from silva.loops.line.head import part_file, task_file
from silva.loops.line.lost import give_back, lost
from silva.models.local.shared import start_anew
from silva.report.summary import summarise
from silva.rollout import RolloutConfig, RunResult, run_rollout
from silva.rollout.guided import Guidance
from silva.rollout.ledger import Ledger
from silva.rollout.run import Hooks, host_pool
from silva.rollout.scheduler import Scheduler
from silva.train.data.dataset import read_dataset
from silva.tree import Boundary, Json, Task, Trajectory, digest
from silva.tree.formats.tasks import read_tasks, write_tasks

PARTS = 3
"""So often the places of a run are played, each time with a model and hosts started anew, before it is given up."""


def play(
    loop: Loop[LineConfig],
    stage: Stage,
    name: str,
    tasks: Sequence[Task],
    more: dict[str, Any],
    guidance: Callable[[bool], Guidance] | None = None,
) -> RunResult:
    """Play tasks as a run of that name, or go on with it.

    Args:
        loop: whose lake and settings.
        stage: that plays them; what it has come to is told as they end.
        name: of the run.
        tasks: to play.
        more: further fields of the rollout's configuration.
        guidance: gives what people say to it; told whether the run goes on.

    Raises:
        UnreachableError: attempts were lost to a model or a host in every part; or the run's budget is spent.
        UsageError, MissingError, StoreError: as `run_rollout`.
    """
    play = loop.config.play
    file = task_file(loop, name)
    write_whole(file, "".join(write_tasks(list(tasks))).encode())
    settings = RolloutConfig.model_validate(
        {
            "run": name,
            "env": loop.config.env,
            "agent": play.agent,
            "lake": loop.lake,
            "pool": play.pool,
            "tasks": {"file": str(file)},
            "budget": play.budget.model_dump(),
            "deadlines": play.deadlines.model_dump(),
            "hosts": play.hosts.model_dump(),
            "on": play.on,
            "ray": play.ray.model_dump(),
            "options": {loop.config.env: play.options} if play.options else {},
            **loop.config.playing(),
            **more,
            "sampling": {**more.get("sampling", {}), "max_tokens": play.max_tokens},
        }
    )
    why = ""
    for part in range(PARTS):
        if part:
            start_anew()
        known = is_lake(place(loop.lake), make=True) and _begun(loop, name)
        if known:
            give_back(loop.lake, name)
        hooks = _told(loop, stage, guidance(known) if guidance is not None else None)
        try:
            result = asyncio.run(run_rollout(settings, resume=known, hooks=hooks))
        except (UnreachableError, EnvError) as error:
            if isinstance(error, EnvError) and error.boundary is not Boundary.INFRASTRUCTURE:
                raise
            why = _why(loop, name) or str(error)
            continue
        if result.remaining:
            raise UnreachableError(
                f"run {name}: {result.remaining} episodes are left ({result.stopped}); raise what of play.budget is "
                "spent and begin the loop again"
            )
        if not lost(result.trajectories):
            return result
        why = _why(loop, name)
    raise UnreachableError(
        f"run {name}: in {PARTS} parts, each with model and hosts started anew, something broke that is no policy's "
        f"doing: {why}; mend it and begin the loop again: it plays those places again, and goes on"
    )


def _why(loop: Loop[LineConfig], name: str) -> str:
    """How many attempts of a run are lost, and to what the first was; "" where none is."""
    if not _begun(loop, name):
        return ""
    found = lost(Lake.open(loop.lake, mode="read").trajectories(run_id=name))
    failure = found[0].outcome.failure if found else None
    return f"{len(found)} attempts were lost ({failure.code}: {failure.message})" if failure is not None else ""


def told(result: RunResult) -> Json:
    """What the ledger says of a run."""
    summary = summarise(result.trajectories, result.floors)
    success = summary.success_of_all
    return {
        "episodes": summary.attempts,
        "tasks": summary.tasks,
        "failed": summary.failed,
        "success": 0.0 if success is None else success.value,
        "low": None if success is None else success.low,
        "high": None if success is None else success.high,
        "reward": 0.0 if summary.score is None else summary.score.value,
        "turns": summary.turns.mean,
        "drawn": summary.completion_tokens.total,
    }


async def candidates(loop: Loop[LineConfig], wanted: LineTasks | None = None) -> list[Task]:
    """The tasks the loop is about, or those that are `wanted` besides, in the environment's order.

    Raises:
        UsageError: there are none, or fewer than three.
    """
    wanted, env = wanted or loop.config.tasks, loop.config.env
    if wanted.file is not None:
        try:
            tasks = read_tasks(wanted.file.read_text(encoding="utf-8"), wanted.file.name, env)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"tasks.file {wanted.file}: cannot be read ({error}); give a JSONL or YAML file"
            ) from error
    else:
        settings = RolloutConfig(env=(env,), hosts=loop.config.play.hosts, deadlines=loop.config.play.deadlines)
        async with host_pool(env, Environments.load().entry(env), settings) as pool:
            tasks = await pool.tasks(split=wanted.split)
    tags = set(wanted.tags)
    chosen = [task for task in tasks if not tags or tags & set(task.tags)][: wanted.limit]
    if len(chosen) < 3:
        raise UsageError(
            f"tasks: {len(chosen)} of {env}'s {len(tasks)} are left, too few to keep apart; see silva envs tasks {env}"
        )
    return chosen


def tasks_named(loop: Loop[LineConfig], ids: Sequence[str]) -> list[Task]:
    """The tasks of these ids, as the survey played them, in this order."""
    run = str(loop.given("survey")["run"])
    text = task_file(loop, run).read_text(encoding="utf-8")
    known = {task.id: task for task in read_tasks(text, Path(run).name)}
    return [known[each] for each in ids]


def learnt(loop: Loop[LineConfig], tags: Sequence[str]) -> list[str]:
    """The ids of the tasks of `train` with one of these tags, all where none is named.

    Raises:
        UsageError: none has one.
    """
    return tagged(loop, _of_part(loop, "train"), tags, "rounds.tags")


def tagged(loop: Loop[LineConfig], ids: Sequence[str], tags: Sequence[str], said: str) -> list[str]:
    """Those of the tasks with one of these tags, all where none is named.

    Raises:
        UsageError: none has one; the message begins with `said`, the key that names the tags.
    """
    if not tags:
        return list(ids)
    found = [task.id for task in tasks_named(loop, ids) if set(tags) & set(task.tags)]
    if not found:
        raise UsageError(f"{said} {', '.join(tags)}: none of {len(ids)} tasks has one of them")
    return found


def measured(loop: Loop[LineConfig], part: str, seed: int) -> list[str]:
    """The ids of the tasks on which a version is measured: so many of a part as `measure` says, drawn by the seed."""
    settings = loop.config.measure
    return drawn(_of_part(loop, part), settings.dev if part == "dev" else settings.test, seed)


def _of_part(loop: Loop[LineConfig], part: str) -> list[str]:
    return [entry.task_id for entry in read_dataset(part_file(loop, part)).entries]


def drawn(ids: Sequence[str], count: int | None, seed: int) -> list[str]:
    """So many of the ids, those whose digests with the seed come first; in their own order."""
    unique = list(dict.fromkeys(ids))
    if count is None or count >= len(unique):
        return unique
    first = set(sorted(unique, key=lambda each: digest("drawn", str(seed), each))[:count])
    return [each for each in unique if each in first]


def _told(loop: Loop[LineConfig], stage: Stage, guidance: Guidance | None) -> Hooks:
    """What a run is watched with: it tells how many of its episodes have ended."""
    tell = teller(loop, stage, "episodes")
    known: list[tuple[Ledger, int]] = []

    def begin(scheduler: Scheduler, ledger: Ledger, episodes: int) -> None:
        known.append((ledger, episodes))
        tell(ledger.ended, episodes)

    def end(trajectory: Trajectory) -> None:
        ledger, episodes = known[-1]
        tell(ledger.ended, episodes)

    return Hooks(on_start=begin, on_end=end, guidance=guidance)


def _begun(loop: Loop[LineConfig], name: str) -> bool:
    return Lake.open(loop.lake, mode="read").run(name) is not None
