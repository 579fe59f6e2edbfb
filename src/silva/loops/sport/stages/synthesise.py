"""Stage `synthesise`: new tasks in the places of `train`, drawn by a writer and admitted as any synthesised task is.

    task of `train` ─▶ its place ─▶ Writer ─▶ candidates ─▶ admission (`silva.loops.roles.admission`) ─▶ tasks of the
                                                           run LINE.round-N.synthesise in the lake, refused ones too

Places are those of `train` alone, and what is held out, or looks like it, is refused: nothing that versions are
measured on is ever searched.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from random import Random

from silva.envs import Registry as Environments
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.progress import teller
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.head import part_file
from silva.loops.line.play import learnt, tasks_named
from silva.loops.roles.admission import admit
from silva.loops.roles.born import born
from silva.loops.roles.held import Held
from silva.loops.roles.registry import make
from silva.loops.roles.writer import Writer
from silva.loops.sport.config import SportConfig
from silva.loops.sport.lineup import drawing_seed
from silva.rollout.config import RolloutConfig
from silva.rollout.opening import host_pool
from silva.train.data.dataset import read_dataset
from silva.tree import Json

ROUNDS = 3
"""So often each place is asked for goals before the stage makes do with fewer tasks."""


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Make them; those that a stage which was killed had admitted stay.

    Raises:
        Nothing: no task was admitted.
        UsageError: the writer is not known, or the environment offers no goals.
        EnvError: the environment broke.
        RoleError, ModelError: a model that the writer asks gave no usable answer, or cannot be had.
    """
    asyncio.run(_make(loop, stage))
    with Lake.open(loop.lake, mode="read") as lake:
        found = [said for _, said in born(lake, loop.run_name(stage))]
    made = [each for each in found if each.verdict == "accepted"]
    refused = Counter(each.reason for each in found if each.verdict == "refused")
    waiting = sum(each.verdict == "waiting" for each in found)
    if not made:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(refused.items())) or "no place allows a goal"
        wait = f", {waiting} wait for a person (silva tasks approve {loop.run_name(stage)})" if waiting else ""
        raise Nothing(f"no task was admitted: {why}{wait}")
    return {
        "run": loop.run_name(stage),
        "tasks": len(made),
        "waiting": waiting,
        "refused": dict(sorted(refused.items())),
        "steps": sum(each.steps for each in found),
    }


async def _make(loop: Loop[SportConfig], stage: Stage) -> None:
    config, wanted = loop.config, loop.config.synthesis
    assert wanted is not None
    seed, run = drawing_seed(loop, stage), loop.run_name(stage)
    writer: Writer = make("writer", wanted.writer, wanted.options)
    places = tasks_named(loop, learnt(loop, config.rounds[stage.round - 1].tags))
    Random(seed).shuffle(places)
    held = [entry.task_id for part in config.tasks.shares if part != "train" for entry in _entries(loop, part)]
    each = max(1, math.ceil(wanted.tasks / len(places)))
    tell = teller(loop, stage, "tasks")
    entry = Environments.load().entry(config.env)
    async with Lake.open(loop.lake) as lake, host_pool(config.env, entry, _hosts(config)) as pool:
        async with pool.lease() as env:
            kept_apart = await Held.of(env, tasks_named(loop, held), wanted.admission.embedder)
        for turn in range(ROUNDS):
            for place in places:
                there = [said for _, said in born(lake, run)]
                count = sum(said.verdict != "refused" for said in there)
                tell(count, wanted.tasks)
                if count >= wanted.tasks:
                    return
                known = {said.goal.words for said in there if said.parent == place.id} if turn else set[str]()
                async with pool.lease() as env:
                    drawn = await writer.write(env, place, min(each, wanted.tasks - count), seed + turn, known)
                await admit(lake, run, pool, drawn, kept_apart, wanted.admission, round=stage.round)


def _hosts(config: SportConfig) -> RolloutConfig:
    return RolloutConfig.model_validate(
        {
            "env": (config.env,),
            "pool": 2,
            "hosts": config.play.hosts.model_dump(),
            "deadlines": config.play.deadlines.model_dump(),
            "options": {config.env: config.play.options} if config.play.options else {},
        }
    )


def _entries(loop: Loop[SportConfig], part: str):
    return read_dataset(part_file(loop, part)).entries
