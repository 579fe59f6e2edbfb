"""Does an environment score as it should? Its expert must reach full marks, its null policy the known floor.

check(entry) ─▶ HostPool ─▶ tasks, a spread sample ─▶ each policy to the end of each ─▶ Check
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Literal

from silva.envs.errors import EnvError
from silva.envs.handle import EnvironmentHandle
from silva.envs.pool import HostPool
from silva.envs.protocol import EnvironmentEntry, Evaluation
from silva.errors import UsageError
from silva.tree import Task
from silva.tree.message import Record

MOST_TURNS = 1000
"""An expert that is not done after so many turns never will be."""

FEW_TURNS = 6
"""Turns that are compared when an environment is asked to repeat itself."""

PolicyName = Literal["expert", "null"]


class PolicyScore(Record, frozen=True, kw_only=True):
    """One policy over the sample: its mean score, share of successes, turns taken, what it should reach, who failed."""

    policy: str
    score: float
    success: float
    turns: int
    wanted: float
    tolerance: float
    holds: bool
    failures: tuple[str, ...] = ()
    short: tuple[str, ...] = ()


class Check(Record, frozen=True, kw_only=True):
    """What `silva envs test` found. `seconds` is wall time, hosts' start included; `differs` says where an environment
    that calls itself deterministic did not repeat itself ("" where it did, or was not asked to)."""

    name: str
    split: str
    tasks: int
    sample: int
    seconds: float
    policies: tuple[PolicyScore, ...]
    differs: str = ""

    @property
    def holds(self) -> bool:
        """Whether every policy scored as it should."""
        return all(policy.holds for policy in self.policies)


async def check(
    entry: EnvironmentEntry, n: int | None = None, split: str | None = None, hosts: int = 1, seed: int = 0
) -> Check:
    """Run the entry's expert and null policy on `n` tasks (default: the entry's `sample`) through real hosts.

    Raises:
        MissingError, UsageError: the environment is not installed, or has no such split or no tasks.
        EnvError: its hosts cannot be started, or its tasks cannot be listed.
    """
    began = perf_counter()
    split = split or entry.splits[0]
    async with HostPool(entry, hosts=hosts, instances_per_host=4, step_timeout=entry.patience) as pool:
        tasks = await pool.tasks(split)
        if not tasks:
            raise UsageError(f"environment {entry.name}: split {split!r} has no tasks")
        sample = spread(tasks, entry.sample if n is None else n)
        policies: list[PolicyScore] = []
        if entry.expert is not None:
            policies.append(await _score(pool, sample, "expert", entry.expert, 1e-9, seed))
        if entry.null is not None:
            policies.append(await _score(pool, sample, "null", entry.null, entry.null_tolerance + 1e-9, seed))
        differs = await _differs(pool, sample[0], policies, seed)
    return Check(
        name=entry.name,
        split=split,
        tasks=len(tasks),
        sample=len(sample),
        seconds=perf_counter() - began,
        policies=tuple(policies),
        differs=differs,
    )


async def _differs(pool: HostPool, task: Task, scores: list[PolicyScore], seed: int) -> str:
    """Where one task with one seed did not go the same way alone, alone again, and beside others with other seeds."""
    policy = next((each.policy for each in scores if not each.failures), "")
    if not pool.capabilities.deterministic or policy not in ("expert", "null"):
        return ""

    async def played(drawn: int) -> list[str]:
        async with pool.lease() as env:
            seen = [await env.reset(task, drawn)]
            while len(seen) <= FEW_TURNS and not (seen[-1].done or seen[-1].truncated):
                action = await (env.expert() if policy == "expert" else env.null())
                seen.append(await env.step(action))
                await asyncio.sleep(0)
            return [repr((each.messages, each.tools, each.reward)) for each in seen]

    try:
        alone, again = await played(seed), await played(seed)
        if alone != again:
            return f"{task.id} does not repeat itself with one seed ({_first(alone, again)})"
        if pool.capabilities.parallel == 1:
            return ""
        beside, *_ = await asyncio.gather(played(seed), *(played(seed + other) for other in (1, 2)))
    except EnvError as error:
        return f"{task.id}: {error}"
    if alone == beside:
        return ""
    return (
        f"{task.id} repeats itself alone, and not beside others in one process ({_first(alone, beside)}): keep all "
        f"state in the instance, random generators too, or declare parallel=1"
    )


def _first(one: list[str], other: list[str]) -> str:
    turn = next(
        (turn for turn, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return "at the reset" if turn == 0 else f"at turn {turn}"


def spread(tasks: list[Task], n: int) -> list[Task]:
    """`n` tasks evenly spread over the list; all of them when it is shorter."""
    if n >= len(tasks):
        return list(tasks)
    return [tasks[index * len(tasks) // n] for index in range(n)]


async def _score(
    pool: HostPool, tasks: list[Task], policy: PolicyName, wanted: float, tolerance: float, seed: int
) -> PolicyScore:
    failures: list[str] = []
    short: list[str] = []

    async def one(task: Task) -> tuple[Evaluation, int] | None:
        try:
            async with pool.lease() as env:
                return await play(env, task, policy, seed)
        except EnvError as error:
            failures.append(f"{task.id}: {error}")
            return None

    played = await asyncio.gather(*(one(task) for task in tasks))
    ended = [result for result in played if result is not None]
    for task, result in zip(tasks, played, strict=True):
        score = None if result is None else result[0].score
        if result is not None and policy == "expert" and (score is None or score < wanted - tolerance):
            short.append(f"{task.id}: {'not judged' if score is None else f'{score:g}'}")
    mean = sum(evaluation.score or 0.0 for evaluation, _ in ended) / len(ended) if ended else 0.0
    holds = not failures and (mean >= wanted - tolerance if policy == "expert" else abs(mean - wanted) <= tolerance)
    return PolicyScore(
        policy=policy,
        score=mean,
        success=sum(bool(evaluation.success) for evaluation, _ in ended) / len(ended) if ended else 0.0,
        turns=sum(turns for _, turns in ended),
        wanted=wanted,
        tolerance=tolerance,
        holds=holds,
        failures=tuple(failures),
        short=tuple(short),
    )


async def play(env: EnvironmentHandle, task: Task, policy: PolicyName, seed: int = 0) -> tuple[Evaluation, int]:
    """Play one task with a built-in policy; returns the evaluation and the turns taken."""
    await env.reset(task, seed)
    turns = 0
    while turns < MOST_TURNS:
        action = await (env.expert() if policy == "expert" else env.null())
        observation = await env.step(action)
        turns += 1
        if observation.done or observation.truncated:
            break
    return await env.evaluate(), turns


def table(checks: list[Check]) -> str:
    """The checks as a Markdown table."""
    lines = [
        "| environment | split | tasks | sampled | expert | null | turns | holds |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for made in checks:
        scores = {policy.policy: f"{policy.score:.3f}" for policy in made.policies}
        turns = sum(policy.turns for policy in made.policies)
        lines.append(
            f"| {made.name} | {made.split} | {made.tasks} | {made.sample} | {scores.get('expert', '–')} "
            f"| {scores.get('null', '–')} | {turns} | {'yes' if made.holds else 'NO'} |"
        )
    return "\n".join(lines)
