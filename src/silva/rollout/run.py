"""A run from config to result: open the lake, choose the tasks, start model and hosts, grow the trees, close the books.

The run's record is written before the first episode and again at the end, so a run that was killed is seen as
`running` until it is resumed. Everything a user can get wrong is found before the first episode starts.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

import silva
from silva.collecting import collect_seldom
from silva.envs import EnvironmentEntry, Registry
from silva.errors import Exit, UnreachableError, UsageError
from silva.lake import Lake
from silva.lake.heartbeat import beating
from silva.models.kept import keeping
from silva.redact import redact_json
from silva.rollout.agent import Agent, AgentFor
from silva.rollout.config import RolloutConfig
from silva.rollout.guided import Guidance
from silva.rollout.ledger import Ledger
from silva.rollout.opening import capacity, host_pool, open_policy
from silva.rollout.program_stages import fit_for_programs
from silva.rollout.queue import FairQueue
from silva.rollout.roles import known_roles
from silva.rollout.scheduler import Scheduler
from silva.rollout.slots import Remembered, Slot, slots
from silva.rollout.tasks import choose_tasks
from silva.rollout.vocabulary import written_with
from silva.tree import Lineage, Run, Task, Trajectory
from silva.tree.run import TOKENIZER

if TYPE_CHECKING:
    from silva.rollout.on_ray.crew import Crew


@dataclass
class RunResult:
    """How a run went. `trajectories` holds every counted attempt, those of earlier parts of the run too."""

    run: Run
    trajectories: list[Trajectory] = field(repr=False)  # asyncio writes out what its main task gave, to throw it away
    floors: dict[str, float]
    remaining: int = 0
    stopped: str = ""
    session_episodes: int = 0
    session_seconds: float = 0.0

    @property
    def exit_code(self) -> Exit:
        """0 when every slot ended without failure; see the table of exit codes."""
        if self.stopped == "interrupted":
            return Exit.INTERRUPTED
        if self.remaining or any(t.outcome.failure and not t.superseded for t in self.trajectories):
            return Exit.INCOMPLETE
        return Exit.OK


@dataclass
class Hooks:
    """What may watch a run: called with the scheduler and ledger when it starts, and with each trajectory; and what
    people say to it. `agent_for` plays in the place of the policy that the configuration names."""

    on_start: Callable[[Scheduler, Ledger, int], None] = lambda scheduler, ledger, total: None
    on_end: Callable[[Trajectory], None] = lambda trajectory: None
    retry: frozenset[str] = field(default_factory=frozenset)
    guidance: Guidance | None = None
    agent_for: AgentFor | None = None


async def run_rollout(config: RolloutConfig, *, resume: bool = False, hooks: Hooks | None = None) -> RunResult:
    """Grow the trees of one run.

    Raises:
        UsageError: unknown environment, model, stage or task; a run name already used, or, with `resume`, not used.
        MissingError: an environment or model must be installed first.
        UnreachableError: the model cannot be had.
        StoreError: the lake cannot be opened or keeps nothing more.
    """
    hooks = hooks or Hooks()
    if config.guidance.wanted and hooks.guidance is None:
        raise UsageError(
            "guidance: actions are to wait for approval, and nobody listens to people: give Hooks.guidance"
        )
    # Before a lake is opened: nothing is known of the environments yet, so a program may be served tools.
    fit_for_programs(config, tools=True)
    registry = Registry.load()
    entries = {name: registry.entry(name) for name in config.env}
    with _seldom_collecting():
        async with Lake.open(config.lake) as lake, keeping():
            return await _run_in(lake, config, entries, resume, hooks)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _run_in(
    lake: Lake, config: RolloutConfig, entries: dict[str, EnvironmentEntry], resume: bool, hooks: Hooks
) -> RunResult:
    run, remembered = await asyncio.to_thread(_take_up, lake, config, resume, hooks.retry)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(beating(str(lake.location), config.run))
        crew = await _crew(config, stack)
        pools = {} if crew else {name: host_pool(name, entry, config) for name, entry in entries.items()}
        for pool in pools.values():
            await stack.enter_async_context(pool)
        if config.command:
            fit_for_programs(config, tools=all(pool.capabilities.tools for pool in pools.values()))
        known_roles(config, {name: pool.capabilities.roles for name, pool in pools.items()})
        tasks = await choose_tasks(config.tasks, crew.pools if crew else pools)
        places = slots(config.run, tasks, config.group, config.seed)
        left = remembered.remaining(places)
        ledger = Ledger(config.budget, remembered.ended)
        doorway = None
        if left and config.command:
            from silva.rollout.doorway import open_doorway  # a gateway, which other runs need not load

            doorway = await stack.enter_async_context(open_doorway(config, lake))
        here = left and doorway is None and crew is None
        agent_for = hooks.agent_for or (await open_policy(config, stack) if here else _no_policy)
        if crew and left:
            await crew.begin(lake, remembered, ledger)
        if not resume:
            await lake.append([run, *(task.owned_by(run.id) for _, task in tasks)])
        room = {name: crew.capacity(name) if crew else capacity(pools[name], config) for name in config.env}
        queue = FairQueue(left, room)
        scheduler = Scheduler(
            config,
            queue,
            lake,
            ledger,
            remembered,
            lambda env: pools[env].lease(),
            agent_for,
            hooks.on_end,
            doorway,
            crew.play if crew else None,
            hooks.guidance,
        )
        hooks.on_start(scheduler, ledger, len(places))
        await scheduler.run()
        result = RunResult(
            run=run,
            trajectories=[*remembered.ended, *scheduler.trajectories],
            floors={name: entry.null for name, entry in entries.items() if entry.null is not None},
            remaining=len(places) - ledger.ended,
            session_episodes=ledger.ended - ledger.before,
            session_seconds=ledger.session_seconds,
        )
        return await _close_books(lake, result, scheduler, ledger)


async def _close_books(lake: Lake, result: RunResult, scheduler: Scheduler, ledger: Ledger) -> RunResult:
    overdrawn = ledger.overdrawn()
    if result.remaining and overdrawn is not None:
        result.stopped = overdrawn.message
    elif ledger.fruitless or (result.remaining and ledger.hopeless):
        result.stopped = "model"
    elif result.remaining and scheduler.draining:
        result.stopped = "interrupted"
    status = "finished" if not result.remaining else "stopped"
    result.run = msgspec.structs.replace(result.run, status=status, finished=max(result.run.started, time.time()))
    await lake.append([result.run])
    if result.stopped == "model":
        raise UnreachableError(
            f"run {result.run.id}: the model failed {'every time' if ledger.fruitless else 'too often in a row'} "
            f"({ledger.last_model_failure}); mend it and continue with --resume --retry-failed"
        )
    return result


def _take_up(lake: Lake, config: RolloutConfig, resume: bool, retry: frozenset[str]) -> tuple[Run, Remembered]:
    """The run's record and what the lake remembers of it."""
    known = lake.run(config.run)
    growth = config.growth_digest()
    if known is None:
        if resume:
            raise UsageError(f"run {config.run} is not in lake {config.lake}: nothing to resume; leave out --resume")
        return new_run(config), Remembered()
    if not resume:
        raise UsageError(
            f"run {config.run} is already in lake {config.lake}: choose another --run, or continue it with --resume"
        )
    if known.lineage.config != growth:
        raise UsageError(
            f"run {config.run} was started with another configuration (environment, tasks, model, agent, group, "
            f"seed or sampling differ): resume it with the same, or choose another --run"
        )
    remembered = Remembered(lake.trajectories(run_id=config.run), lake.nodes(run_id=config.run), retry)
    return msgspec.structs.replace(known, status="running", finished=0.0), remembered


def new_run(config: RolloutConfig) -> Run:
    """The record of a run that begins now.

    Raises:
        UsageError: the people's renderer writes other ids than the model draws.
    """
    tokenizer = written_with(config)
    return Run(
        id=config.run,
        envs=config.env,
        model=config.policy_name,
        agent=config.agent if config.policy == "model" else config.policy,
        seed=config.seed,
        config=redact_json(config.model_dump(mode="json"), names=True),
        lineage=Lineage(code=f"silva {silva.__version__}", config=config.growth_digest()),
        started=time.time(),
        summary={TOKENIZER: tokenizer} if tokenizer else {},
    )


async def _crew(config: RolloutConfig, stack: AsyncExitStack) -> Crew | None:
    if config.on != "ray":
        return None
    from silva.rollout.on_ray.crew import open_crew  # which other runs need not load

    return await stack.enter_async_context(open_crew(config))


def _no_policy(_env: Any, role: str = "") -> Agent:
    raise AssertionError("no slot is left, so no agent can be asked for")


def plan(
    config: RolloutConfig, tasks: Sequence[tuple[str, Task]], left: Sequence[Slot], where: str = "this machine"
) -> dict[str, Any]:
    """What a run would do, for `--dry-run`. `where` it would be played."""
    return {
        "run": config.run,
        "on": where,
        "environments": list(config.env),
        "policy": config.policy_name,
        "agent": config.agent if config.policy == "model" else config.policy,
        **({"roles": {name: role.model for name, role in config.roles.items()}} if config.roles else {}),
        "tasks": len(tasks),
        "group": config.group,
        "episodes": len(tasks) * config.group,
        "to_run": len(left),
        "pool": config.pool,
        "lake": config.lake,
        "cores": os.cpu_count(),
        "first_tasks": [task.id for _, task in tasks[:5]],
    }
