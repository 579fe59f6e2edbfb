"""Stage `grow`: contexts of the round's signals, explored, abstracted, validated: the tasks of the rounds to come."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from silva.curate.diversity import diversity
from silva.curate.signals.reading import signals_of
from silva.lake import Lake
from silva.loops.coevolve import growing
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.contexts import signalled, unguided
from silva.loops.coevolve.tasks import held_out, played, present
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.progress import teller
from silva.loops.kernel.stage import Stage
from silva.loops.line.play import play
from silva.loops.line.weights import playing
from silva.loops.roles import Candidate, Context, Explored, Walk, born, make
from silva.models.embedding import open_embedder
from silva.rollout import RolloutConfig
from silva.rollout.branching.grow import settings_of
from silva.tree import Json, Trajectory

NOTHING: Json = {"run": "", "contexts": 0, "walks": 0, "turns": 0, "candidates": 0, "known": 0, "accepted": []}
NOTHING |= {"waiting": [], "refused": {}, "by_signal": {}, "acted": [], "steps": 0, "attempted": 0, "drawn": 0}
NOTHING |= {"diversity": {}}


def run(loop: Loop[CoEvolveConfig], stage: Stage) -> Json:
    """Grow. Without a context (no signal) nothing grows, and that is said.

    Raises:
        UsageError: the contexts cannot be explored, or the environment cannot look back.
        UnreachableError, MissingError, StoreError, EnvError: as the roles.
    """
    grow, share = loop.config.grow, loop.config.share
    contexts = _contexts(loop, stage, grow.contexts * share)
    if not contexts:
        return NOTHING
    tell = teller(loop, stage, "parts (explored, written, abstracted, validated, measured)")
    base = _base(loop, stage)
    explored = asyncio.run(growing.walked(loop, base, contexts))
    tell(1, 5)
    known = {task.id for task in present(loop, stage)}
    more, walks, attempted = _written(loop, stage, explored, base, known)
    tell(2, 5)
    candidates = [*asyncio.run(growing.abstracted(loop, explored.run, [*explored.walks, *walks])), *more]
    tell(3, 5)
    new = asyncio.run(growing.unknown(loop, candidates, known))
    most = round(grow.tasks * share * grow.tried)
    executed = grow.admission.validation.execute
    chosen = growing.ordered(new, stage.seed, most, longest=grow.order == "longest", solved_first=executed)
    steps, seconds = asyncio.run(growing.admitted(loop, explored.run, chosen, stage.round, known))
    tell(4, 5)
    with Lake.open(loop.lake, mode="read") as lake:
        kept = {(how.parent, how.goal.words): (task, how) for task, how in born(lake, explored.run, stage.round)}
    judged = [kept[key] for each in chosen if (key := (each.place.id, each.goal.words)) in kept]
    accepted = [(task, how) for task, how in judged if how.verdict == "accepted"][: grow.tasks * share]
    waiting = [task.id for task, how in judged if how.verdict == "waiting"][: grow.tasks * share]
    refused: dict[str, int] = {}
    for _, how in judged:
        if how.verdict == "refused":
            refused[how.reason] = refused.get(how.reason, 0) + 1
    shown = asyncio.run(growing.openings(loop, [task for task, _ in accepted]))
    target = asyncio.run(growing.openings(loop, held_out(loop)))
    embedder = open_embedder(grow.admission.embedder)
    return {
        "run": explored.run,
        "version": loop.given(f"round-{stage.round}.rollout")["version"],
        "contexts": len(contexts),
        "walks": len(explored.walks),
        "turns": explored.turns,
        "drawn": explored.acted.completion_tokens,
        "left_out": explored.left_out,
        "failed": explored.failed,
        "remaining": explored.remaining,
        "candidates": len(candidates),
        "known": len(candidates) - len(new),
        "attempted": attempted,
        "accepted": [task.id for task, _ in accepted],
        "waiting": waiting,
        "refused": refused,
        "by_signal": growing.by_signal(contexts, candidates, [how for _, how in accepted]),
        "acted": [msgspec.to_builtins(explored.acted)],
        "steps": steps,
        "seconds_of_validation": seconds,
        "diversity": diversity(embedder.embed(shown), embedder.embed(target)) if shown else {},
    }


def _contexts(loop: Loop[CoEvolveConfig], stage: Stage, count: int) -> list[Context]:
    with Lake.open(loop.lake, mode="read") as lake:
        read: list[str] = loop.given(f"round-{stage.round}.signals")["runs"]
        if loop.config.grow.by == "signals":
            found = [each for run in read for each in signals_of(lake, run) if each.kind in loop.config.grow.signals]
            return signalled(found, count, stage.seed)
        runs = played(loop, stage.round) if loop.config.grow.by == "start" else read[-1:]
        return unguided([each for run in runs for each in lake.trajectories(run_id=run)], count, stage.seed)


def _base(loop: Loop[CoEvolveConfig], stage: Stage) -> RolloutConfig:
    """The round's policy and hosts, as a run of branches."""
    rollout = loop.given(f"round-{stage.round}.rollout")
    with Lake.open(loop.lake, mode="read") as lake:
        of = lake.run(str(rollout["run"]))
    values: dict[str, Any] = {
        **settings_of(of),
        "run": f"{loop.run_name(stage)}",
        "lake": loop.lake,
        "env": [loop.config.env],
        "pool": loop.config.play.pool,
        "model": playing(loop, str(rollout["version"])),
        "seed": stage.seed,
    }
    return RolloutConfig.model_validate(values)


def _attempting(loop: Loop[CoEvolveConfig], base: RolloutConfig) -> dict[str, Any]:
    """How the policy attempts what a writer says: as it explores, where the explorer is the policy itself."""
    explorer = make("explorer", loop.config.grow.explorer.name, loop.config.grow.explorer.options)
    how = base if explorer.model else explorer.playing(base)
    return {
        "policy": how.policy,
        "model": how.model,
        "stages": how.stages,
        "sampling": {"temperature": how.sampling.temperature},
    }


def _written(
    loop: Loop[CoEvolveConfig], stage: Stage, explored: Explored, base: RolloutConfig, known: set[str]
) -> tuple[list[Candidate], list[Walk], int]:
    """What the writer adds, with the policy's own solutions; its attempts, as walks; and the turns that they took."""
    grow = loop.config.grow
    pairs = asyncio.run(growing.written(loop, explored, stage.seed, known))
    tasks = {task.id: task for _, task in pairs if task is not None}
    if not tasks or not grow.admission.validation.execute:
        return [each for each, _ in pairs], [], 0
    more = {"group": grow.attempts, "seed": stage.seed, **_attempting(loop, base)}
    result = play(loop, stage, loop.run_name(stage, "attempts"), list(tasks.values()), more)
    of_task: dict[str, list[Trajectory]] = {}
    ended = sorted(result.trajectories, key=lambda each: (each.task_id, each.index))  # not as they happened to end
    for each in ended:
        of_task.setdefault(each.task_id, []).append(each)
    with Lake.open(loop.lake, mode="read") as lake:
        won = growing.successes(lake, ended)
    found = [growing.solved(each, won.get(task.id, ()) if task is not None else ()) for each, task in pairs]
    walks = [
        walk
        for each, task in pairs
        if task is not None
        for walk in growing.attempted(explored, each, of_task.get(task.id, []))
    ]
    return found, walks, sum(each.turns for each in result.trajectories)
