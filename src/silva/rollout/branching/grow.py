"""Growing branches: a run whose slots are shoots, each begun at its point.

    Growth ─▶ points ─▶ (first environment brought there) ─▶ Run record ─▶ Scheduler ─▶ BranchEpisode ─▶ trajectories

What is to be grown is in the run's record before the first turn, and every turn is durable before the next, so after
`kill -9` the run resumes: ended paths stay, one that was cut off takes its stored turns again and goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

import silva
from silva.envs import HostPool, Registry
from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.lake import field as where
from silva.redact import redact_json
from silva.rollout.agent import Agent, AgentFor
from silva.rollout.branching.episode import BranchEpisode, TurnsLeft
from silva.rollout.branching.shoots import KEY, Growth, Shoot, growth_of
from silva.rollout.config import RolloutConfig
from silva.rollout.ledger import Ledger
from silva.rollout.opening import capacity, host_pool, open_policy
from silva.rollout.path import Path
from silva.rollout.queue import FairQueue
from silva.rollout.scheduler import Scheduler
from silva.rollout.slots import Remembered, Slot
from silva.rollout.snapshots.known import TOGETHER, Known
from silva.rollout.snapshots.point import Point, point_at
from silva.rollout.snapshots.restore import Restorer
from silva.tree import Author, Lineage, Node, Run, Trajectory, digest


@dataclass
class Grown:
    """What came of a run of branches. `trajectories` by tree and index, those of earlier parts of the run too;
    `points` by tree and node; `remaining`: shoots that have not ended; `walks` by trajectory, where they were read."""

    run: Run
    growth: Growth
    trajectories: list[Trajectory]
    points: dict[tuple[str, str], Point]
    remaining: int = 0
    stopped: str = ""
    seconds: float = 0.0
    walks: dict[str, tuple[Node, ...]] = field(default_factory=dict)

    @property
    def new_turns(self) -> int:
        """Turns that the branches took after their points."""
        return sum(new_turns(each) for each in self.trajectories)


def new_turns(trajectory: Trajectory) -> int:
    """Turns a branch took after its point; 0 for what is no branch."""
    return int(trajectory.attributes.get(KEY, {}).get("turns", 0))


async def grow(
    lake: Lake,
    config: RolloutConfig,
    growth: Growth,
    *,
    command: str = "branch",
    points: dict[tuple[str, str], Point] | None = None,
    probe: bool = True,
    on_start: Callable[[Scheduler], None] = lambda scheduler: None,
    on_end: Callable[[Trajectory], None] = lambda trajectory: None,
) -> Grown:
    """Grow shoots as the run `config.run`, or go on with it where the lake has it.

    Args:
        lake: open to write.
        config: policy, model, budgets and hosts; its environments are the growth's.
        growth: what to grow; must be what the stored run says where there is one.
        command: what the run is recorded as.
        points: by tree and node, where they have been looked up.
        probe: bring one environment to each point before anything is written, so that what cannot be reached is
            refused and not recorded.
        on_start: called with the scheduler, which can be drained or stopped.
        on_end: called with each trajectory.

    Raises:
        BranchDiverged: an environment did not get to its point the way it did before.
        UsageError, MissingError, UnreachableError: as `run_rollout`.
        EnvError: an environment cannot be started, or fails on the way to its point.
        StoreError: the lake can keep nothing more.
    """
    began = time.monotonic()
    points = points or await asyncio.to_thread(points_of, lake, growth)
    known = await asyncio.to_thread(lake.run, config.run)
    if known is not None and growth_of(known) != growth:
        raise UsageError(f"run {config.run} is already in lake {lake.location}: choose another --run")
    if config.command:
        raise UsageError(
            "a program keeps its own memory, so it cannot be taken up in the middle: --agent tools or react"
        )
    config = config.model_copy(update={"env": tuple(sorted({point.env for point in points.values()}))})
    shoots = {(shoot.tree_id, shoot.index): shoot for shoot in growth.shoots}
    async with AsyncExitStack() as stack:
        registry = Registry.load()
        pools = {name: host_pool(name, registry.entry(name), config) for name in config.env}
        starting = [asyncio.create_task(stack.enter_async_context(pool)) for pool in pools.values()]
        try:
            remembered = await asyncio.to_thread(_remembered, lake, config.run) if known else Remembered()
            left = remembered.remaining(_slot(shoot, points[shoot.tree_id, shoot.node_id]) for shoot in growth.shoots)
            agent_for = await open_policy(config, stack) if left else _no_policy
        finally:
            await asyncio.gather(*starting)
        restorers = {place: Restorer(point, lake, accept=growth.accept) for place, point in points.items()}
        if probe:
            waiting = {(slot.tree_id, shoots[slot.tree_id, slot.index].node_id) for slot in left}
            for place in waiting:
                _refuse_full(points[place], config, pools[points[place].env])
                stack.push_async_callback(restorers[place].close)
                await restorers[place].prepare(pools[points[place].env].lease())
        run = known or new_run(config, growth, command, points)
        tasks = {point.task.id: point.task.owned_by(run.id) for point in points.values()}
        await lake.append([msgspec.structs.replace(run, status="running", finished=0.0), *tasks.values()])
        ledger = Ledger(config.budget, remembered.ended)
        turns_left = TurnsLeft(growth.turns, sum(map(new_turns, remembered.ended)))
        summaries = await asyncio.to_thread(_summaries, lake, {shoot.tree_id for shoot in growth.shoots})
        grower = _Grower(lake, config, shoots, restorers, pools, remembered, ledger, turns_left, agent_for, summaries)
        scheduler = Scheduler(
            config,
            FairQueue(left, {name: capacity(pool, config) for name, pool in pools.items()}),
            lake,
            ledger,
            remembered,
            lambda env: pools[env].lease(),
            agent_for,
            on_end,
            None,
            grower.play,
        )
        grower.scheduler = scheduler
        on_start(scheduler)
        await scheduler.run()
    found = sorted([*remembered.ended, *scheduler.trajectories], key=lambda each: (each.tree_id, each.index))
    grown = Grown(run, growth, [each for each in found if not each.superseded], points)
    grown.remaining = len(growth.shoots) - len(grown.trajectories)
    grown.seconds = time.monotonic() - began
    return await _closed(lake, grown, ledger, turns_left, scheduler)


async def _closed(lake: Lake, grown: Grown, ledger: Ledger, turns_left: TurnsLeft, scheduler: Scheduler) -> Grown:
    if grown.remaining and not turns_left.spent:
        overdrawn = ledger.overdrawn()
        grown.stopped = overdrawn.message if overdrawn else "model" if ledger.hopeless else "interrupted"
    status = "stopped" if grown.stopped else "finished"
    grown.run = msgspec.structs.replace(grown.run, status=status, finished=max(grown.run.started, time.time()))
    await lake.append([grown.run])
    if ledger.fruitless:
        raise UnreachableError(
            f"run {grown.run.id}: the model failed every time ({ledger.last_model_failure}); mend it and branch again"
        )
    return grown


@dataclass
class _Grower:
    """Plays one slot: what the scheduler calls in the place of an episode from the beginning."""

    lake: Lake
    config: RolloutConfig
    shoots: dict[tuple[str, int], Shoot]
    restorers: dict[tuple[str, str], Restorer]
    pools: dict[str, HostPool]
    remembered: Remembered
    ledger: Ledger
    turns_left: TurnsLeft
    agent_for: AgentFor
    summaries: dict[str, list[Node]]
    scheduler: Scheduler | None = field(default=None)

    async def play(self, slot: Slot) -> Trajectory:
        shoot = self.shoots[slot.tree_id, slot.index]
        restorer = self.restorers[shoot.tree_id, shoot.node_id]
        path = Path(
            self.lake,
            self.config.run,
            slot.tree_id,
            slot.name,
            self.remembered.written[slot.tree_id],
            self.remembered.walk(slot),
        )
        made = self.summaries.get(slot.tree_id, [])
        episode = BranchEpisode(
            self.config, slot, path, self.ledger.overdrawn, shoot, restorer, made, self.lake, self.turns_left
        )
        pool = self.pools[slot.env]
        trajectory = await episode.run(restorer.lease(pool.lease()), self.agent_for, self.lake, pool.lease)
        await path.finish(trajectory)
        if self.turns_left.spent and self.scheduler is not None:
            self.scheduler.drain()
        return trajectory


def new_run(config: RolloutConfig, growth: Growth, command: str, points: dict[tuple[str, str], Point]) -> Run:
    """The record of a run of branches that begins now."""
    # Actions and messages are data, as the nodes they become are: only the configuration may hold secrets.
    said = {**redact_json(config.model_dump(mode="json"), names=True), KEY: msgspec.to_builtins(growth)}
    parents = sorted({point.run.id for point in points.values() if point.run is not None})
    return Run(
        id=config.run,
        command=command,
        envs=config.env,
        model=config.policy_name,
        agent=config.agent if config.policy == "model" else config.policy,
        seed=config.seed,
        config=said,
        lineage=Lineage(
            code=f"silva {silva.__version__}",
            config=digest(config.growth_digest(), repr(growth)),
            parents=tuple(parents),
        ),
        started=time.time(),
    )


def settings_of(run: Run | None) -> dict[str, Any]:
    """The configuration of a stored run as a branch of it begins with: its budget for the whole run, which is spent,
    and what belongs to its own tasks left out."""
    said = {name: value for name, value in (run.config if run is not None else {}).items() if value is not None}
    for name in (KEY, "run", "lake", "tasks", "group", "on", "ray", "slips", "renderer", "pool"):
        said.pop(name, None)
    budget = said.get("budget")
    if isinstance(budget, dict):
        said["budget"] = {name: budget[name] for name in ("turns", "episode_tokens") if budget.get(name) is not None}
    return said


def _remembered(lake: Lake, run: str) -> Remembered:
    return Remembered(lake.trajectories(run_id=run), lake.nodes(run_id=run))


def _summaries(lake: Lake, trees: set[str]) -> dict[str, list[Node]]:
    """The summaries in these trees before anything new grows, by tree; not asked for by each branch."""
    found: dict[str, list[Node]] = {}
    for first in range(0, len(trees), TOGETHER):
        part = sorted(trees)[first : first + TOGETHER]
        for node in lake.nodes(where=(where("author") == Author.SUMMARISER.value) & where("tree_id").is_in(part)):
            found.setdefault(node.tree_id, []).append(node)
    return found


def points_of(lake: Lake | Known, growth: Growth) -> dict[tuple[str, str], Point]:
    """Where the shoots begin, by tree and node.

    Raises:
        UsageError: a tree or its task is not in the lake.
    """
    known = Known.of(lake)
    known.read(shoot.tree_id for shoot in growth.shoots)
    points: dict[tuple[str, str], Point] = {}
    for shoot in growth.shoots:
        place = (shoot.tree_id, shoot.node_id)
        if place not in points:
            tree = known.tree(shoot.tree_id)
            points[place] = point_at(known, tree, tree.node(shoot.node_id), env=growth.env or None, whole=False)
    return points


def _refuse_full(point: Point, config: RolloutConfig, pool: HostPool) -> None:
    limit = config.budget.turns or pool.capabilities.max_turns
    if point.turns >= limit:
        raise UsageError(
            f"node {point.node.id[:12]}: the walk has {point.turns} turns of at most {limit}: raise budget.turns, or "
            f"branch further up"
        )


def _slot(shoot: Shoot, point: Point) -> Slot:
    return Slot(env=point.env, task=point.task, index=shoot.index, attempt=0, seed=point.seed, tree_id=shoot.tree_id)


def _no_policy(_env: Any, role: str = "") -> Agent:
    raise AssertionError("no shoot is left, so no agent can be asked for")
