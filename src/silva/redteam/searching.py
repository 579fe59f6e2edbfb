"""A search: an attacker tries again and again what reaches a goal, round after round; the lake is all it remembers.

    round k ─▶ what was tried, by task (trajectories of rounds 1 … k-1) ─▶ a run `NAME.rK` of the tasks still open
                                                                             │ restart: the task from its beginning
                                                                             │ branch:  from just before a decision
             ◀── verdicts of its attempts, on its trajectories ◀─────────────┘

A round's configuration is a function of the rounds before it, so a search that was cut off is the same search when it
goes on: rounds that ended are read, the one that was cut off is resumed, and no call is made twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.lake import Lake
from silva.redteam.attack import Attack
from silva.redteam.attackers import Try
from silva.redteam.attackers.table import attacker
from silva.redteam.decisions import shoots_at
from silva.redteam.verdict import told
from silva.rollout.branching.grow import grow
from silva.rollout.branching.shoots import KEY, Growth, growth_of
from silva.rollout.config import RUN_NAME, RolloutConfig
from silva.rollout.run import run_rollout
from silva.tree import Record, Run, Trajectory

BASE = "base"
"""The last part of the name of the run that branches begin from."""


class Search(Record, frozen=True, kw_only=True):
    """What is searched: `attack` by `attacker`, whose words `writer` writes, in at most `rounds` rounds. Branches:
    `width` tries at once for each task, at the result of turn `depth` (0: at each decision in turn, risky ones first).
    `patience`: turns after the attack after which an attempt ends (0: as many as the episode has)."""

    attack: str
    attacker: str
    writer: str = "grammar"
    rounds: int = 10
    width: int = 1
    depth: int = 0
    patience: int = 0
    goal: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    def name(self, plan: str) -> str:
        """The name that the runs of its rounds begin with."""
        return f"{plan}.{self.attacker}.{self.attack.replace('/', '.')}"


Play = Callable[[RolloutConfig, bool], Awaitable[int]]
"""Plays a run, resumed where told, and returns how many episodes are left."""


async def play(config: RolloutConfig, resume: bool) -> int:
    """Play a run without anybody who watches it."""
    return (await run_rollout(config, resume=resume)).remaining


async def search(config: RolloutConfig, wanted: Search, *, playing: Play = play) -> int:
    """Search, or go on with a search; return how many attempts of a round were left when it was stopped (0: none).

    Args:
        config: what is attacked; its `run` is the plan's name.
        wanted: the search.
        playing: plays one run.

    Raises:
        UsageError: the attack, the attacker or a name is not known, or they do not go together.
        StoreError, MissingError, UnreachableError: as `run_rollout`.
    """
    checked(config, wanted)
    name = wanted.name(config.run)
    by = attacker(wanted.attacker)
    if by.branches:
        left = await _played(_stage(config, f"{name}.{BASE}", wanted, quiet=True), playing)
        if left:
            return left
    for number in range(1, wanted.rounds + 1):
        run = f"{name}.r{number}"
        if _ended(await _known(config, run)):
            continue
        tried, open_tasks = await asyncio.to_thread(_so_far, config, name, number)
        if number > 1 and not open_tasks:
            break
        if by.branches:
            left = await _branched(config, wanted, run, tried, number)
        else:
            round_config = _stage(config, run, wanted, tried=tried)
            if number > 1:
                chosen = config.tasks.model_copy(update={"ids": tuple(open_tasks), "limit": None})
                round_config = round_config.model_copy(update={"tasks": chosen})
            left = await _played(round_config, playing)
        if left:
            return left
    return 0


def checked(config: RolloutConfig, wanted: Search) -> None:
    """Refuse a search that cannot be.

    Raises:
        UsageError: what is wrong with it.
    """
    attack, by = Attack.of(wanted.attack), attacker(wanted.attacker)
    if attack.surface.moment == "opening" and (by.branches or by.moment == "turn"):
        raise UsageError(
            f"attacker {by.name}: speaks in results, and the surface {attack.surface.name} is of the opening"
        )
    if by.branches and config.command:
        raise UsageError(f"attacker {by.name}: an agent that is a program cannot be taken up in the middle")
    if not RUN_NAME.fullmatch(f"{wanted.name(config.run)}.r{wanted.rounds}"):
        raise UsageError(f"run name {wanted.name(config.run)!r}: at most 100 characters; give --run a shorter name")


async def _branched(config: RolloutConfig, wanted: Search, run: str, tried: dict[str, list[Try]], number: int) -> int:
    async with Lake.open(config.lake) as lake:
        known = await asyncio.to_thread(lake.run, run)
        if known is not None:
            growth = growth_of(known)
            settings = _stored(known, config)
        else:
            ended = lake.trajectories(run_id=f"{wanted.name(config.run)}.{BASE}")
            reached = {task for task, each in tried.items() if any(one.reached for one in each)}
            left = [each for each in ended if each.task_id not in reached and not each.superseded]
            shoots = shoots_at(lake, left, depth=wanted.depth, width=wanted.width, number=number)
            growth = Growth(shoots=shoots, source=wanted.name(config.run))
            settings = _stage(config, run, wanted, tried=tried)
        if not growth.shoots and number == 1:
            raise UsageError(
                f"attacker {wanted.attacker}: no attempt of {wanted.name(config.run)}.{BASE} was answered"
                f"{f' at turn {wanted.depth}' if wanted.depth else ''} before another action, so there is no decision"
            )
        if not growth.shoots:
            return 0
        grown = await grow(lake, settings, growth, command="redteam", probe=False)
        return grown.remaining


def _stored(known: Run, config: RolloutConfig) -> RolloutConfig:
    values = {name: value for name, value in known.config.items() if name != KEY and value is not None}
    return RolloutConfig.model_validate({**values, "lake": config.lake, "model": config.model})


def _stage(
    config: RolloutConfig, run: str, wanted: Search, *, tried: dict[str, list[Try]] | None = None, quiet: bool = False
) -> RolloutConfig:
    options: dict[str, object] = {"attack": wanted.attack}
    if wanted.goal:
        options["goal"] = wanted.goal
    if quiet:
        options["quiet"] = True
    else:
        options |= {"attacker": wanted.attacker, "writer": wanted.writer, "tried": msgspec.to_builtins(tried or {})}
        if wanted.patience:
            options["patience"] = wanted.patience
        if wanted.depth:
            options["at"] = wanted.depth
    values = config.model_dump()
    return RolloutConfig.model_validate({**values, "run": run, "stages": {"attack": options, **config.stages}})


async def _played(config: RolloutConfig, playing: Play) -> int:
    known = await _known(config, config.run)
    return 0 if _ended(known) else await playing(config, known is not None)


async def _known(config: RolloutConfig, run: str) -> Run | None:
    async with Lake.open(config.lake) as lake:
        return await asyncio.to_thread(lake.run, run)


def _ended(run: Run | None) -> bool:
    return run is not None and run.status == "finished"


def _so_far(config: RolloutConfig, name: str, number: int) -> tuple[dict[str, list[Try]], list[str]]:
    """What earlier rounds tried, by task, and the tasks whose goal was not reached."""
    if number == 1:
        return {}, []
    with Lake.open(config.lake, mode="read") as lake:
        rounds = [lake.trajectories(run_id=f"{name}.r{each}") for each in range(1, number)]
    tried: defaultdict[str, list[Try]] = defaultdict(list)
    for trajectories in rounds:
        for each in sorted(trajectories, key=lambda each: (each.task_id, each.index)):
            if not each.superseded:
                tried[each.task_id] += tries(each)
    return dict(tried), [task for task, found in tried.items() if not any(each.reached for each in found)]


def tries(trajectory: Trajectory) -> Iterable[Try]:
    """What was tried in one attempt: the last of what was said, with the attempt's own verdict; where nothing was said,
    why."""
    record = told(trajectory)
    if not record:
        return []
    said = record.get("tried") or []
    if not record.get("launched") or not said:
        return [Try(words="", silent=str(record.get("why", "")))]
    last = msgspec.convert(said[-1], Try)
    verdict = {name: record.get(name) is not None for name in ("exposed", "acted", "reached")}
    return [msgspec.structs.replace(last, launched=True, **verdict, reply=str(record.get("reply", last.reply)))]
