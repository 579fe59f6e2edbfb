"""Validation by execution: a candidate becomes a task only where its solution brings its goal about, on a fresh
environment, under the checker that will score it.

    candidate ─▶ the environment makes the task ─▶ held out, or like it? ─▶ null policy ─▶ solution, step by step
        ─▶ accepted (success), rewarded (no success, but a reward) │ refused, and why

Refused are: `goal` (the place has no such goal), `copy` (a held-out task, its place, or too much like one), `known`
(there already), `trivial` (solved by doing nothing, or by too few actions), `long`, `unsolved` (nobody knows a
solution), `infeasible` (the solution does not solve it), `broken` (the environment failed). The measured similarity is
kept either way. Later come `unsafe` (the safety filter) and `person` (who said no).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal

from pydantic import Field

from silva.envs import EnvError
from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Observation
from silva.errors import UsageError
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.held import Held, opening_of
from silva.rollout.section import Section
from silva.tree import Message, Record, Task

Reason = Literal["", "goal", "copy", "known", "trivial", "long", "unsolved", "infeasible", "broken", "unsafe", "person"]

_NULL_TURNS = 3
"""Turns the null policy gets: it gives up at once, or stands still."""


class ValidationConfig(Section):
    """What a task must be. `least` and `most`: actions of its solution; `similarity_below`: how much it may look like a
    held-out task (cosine); `rewarded`: whether a positive reward without success is enough, as in the paper; `expert`:
    ask the environment's expert for a solution where none is given (off: such a candidate is refused as unsolved);
    `execute`: off, nothing is carried out and every candidate that is no copy is taken (the ablation)."""

    least: int = Field(default=2, ge=1)
    most: int = Field(default=60, ge=1)
    similarity_below: float = Field(default=0.95, gt=0, le=1.01)
    rewarded: bool = True
    expert: bool = False
    execute: bool = True


class Validated(Record, frozen=True, kw_only=True):
    """What validation came to. `task`: as the environment made it (None where it did not); `reason`: "" where it is
    accepted; `solution`: the actions that were carried out up to its end; `score`, `success`, `reward`: what they came
    to; `steps`: of the environment, all told; `similarity`, `nearest`: to what is held out."""

    candidate: Candidate
    task: Task | None = None
    reason: Reason = ""
    why: str = ""
    solution: tuple[Message, ...] = ()
    score: float | None = None
    success: bool | None = None
    reward: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    similarity: float | None = None
    nearest: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it may become a task."""
        return not self.reason


class Validator:
    """Validates candidates of one environment.

    Args:
        lease: gives an instance, as `HostPool.lease` does; a solution is played on one that was reset for it.
        held: what is held out.
        config: what a task must be.
        known: ids of tasks that are there already.
    """

    def __init__(
        self,
        lease: Callable[[], AbstractAsyncContextManager[EnvironmentHandle]],
        held: Held,
        config: ValidationConfig,
        known: Collection[str] = (),
    ) -> None:
        self._lease, self._held, self._config = lease, held, config
        self._known = set(known)

    async def validate(self, candidates: Sequence[Candidate]) -> list[Validated]:
        """Each candidate's verdict, in their order; of two that make the same task the one with the shorter solution
        is taken first."""
        order = sorted(range(len(candidates)), key=lambda at: (len(candidates[at].solution), at))
        found: dict[int, Validated] = {}
        for at in order:
            found[at] = await self._one(candidates[at])
            made = found[at].task
            if found[at].accepted and made is not None:
                self._known.add(made.id)
        return [found[at] for at in range(len(candidates))]

    async def _one(self, candidate: Candidate) -> Validated:
        began = time.monotonic()
        trial = _Trial(candidate, self._config)
        try:
            async with self._lease() as env:
                await trial.run(env, self._held, self._known)
        except EnvError as error:
            trial.refuse("broken", str(error))
        return trial.told(time.monotonic() - began)


class _Trial:
    """One candidate under validation; what is found out is kept, wherever it ends."""

    def __init__(self, candidate: Candidate, config: ValidationConfig) -> None:
        self._candidate, self._config = candidate, config
        self._task: Task | None = None
        self._reason: Reason = ""
        self._why = ""
        self._done: list[Message] = []
        self._score: float | None = None
        self._success: bool | None = None
        self._reward = 0.0
        self._steps = 0
        self._similarity: float | None = None
        self._nearest = ""

    def refuse(self, reason: Reason, why: str) -> None:
        self._reason, self._why = reason, " ".join(why.split())[:500]

    def told(self, seconds: float) -> Validated:
        return Validated(
            candidate=self._candidate,
            task=self._task,
            reason=self._reason,
            why=self._why,
            solution=tuple(self._done),
            score=self._score,
            success=self._success,
            reward=self._reward,
            steps=self._steps,
            seconds=seconds,
            similarity=self._similarity,
            nearest=self._nearest,
        )

    async def run(self, env: EnvironmentHandle, held: Held, known: Collection[str]) -> None:
        candidate, config = self._candidate, self._config
        try:
            task = self._task = await env.task(candidate.place, candidate.goal)
        except UsageError as error:
            return self.refuse("goal", str(error))
        if task.id in known:
            return self.refuse("known", f"there is a task {task.id} already")
        opening = await env.reset(task)
        self._liken(held, opening)
        if why := held.holds(task, candidate.place):
            return self.refuse("copy", why)
        if self._similarity is not None and self._similarity >= config.similarity_below:
            text = (
                f"it looks like {self._nearest}: {self._similarity:.3f}, and must be below {config.similarity_below:g}"
            )
            return self.refuse("copy", text)
        if not config.execute:
            self._done = list(candidate.solution)
            return None
        if candidate.solution and len(candidate.solution) < config.least:
            return self.refuse("trivial", f"{len(candidate.solution)} actions solve it; at least {config.least} must")
        if len(candidate.solution) > config.most:
            return self.refuse("long", f"its solution has {len(candidate.solution)} actions of at most {config.most}")
        if await self._by_nothing(env):
            return self.refuse("trivial", "the null policy solves it")
        if not candidate.solution and not config.expert:
            return self.refuse("unsolved", "nobody knows a solution; have it explored, or ask the expert")
        await self._play(env, task)
        return None

    def _liken(self, held: Held, opening: Observation) -> None:
        found = held.like(opening_of(opening))
        if found is not None:
            self._similarity, self._nearest = found.similarity, found.nearest

    async def _by_nothing(self, env: EnvironmentHandle) -> bool:
        try:
            for _ in range(_NULL_TURNS):
                seen = await env.step(await env.null())
                self._steps += 1
                if seen.done or seen.truncated:
                    break
        except UsageError:  # it has no null policy
            return False
        return bool((await env.evaluate()).success)

    async def _play(self, env: EnvironmentHandle, task: Task) -> None:
        config, given = self._config, self._candidate.solution
        await env.reset(task)
        limit = len(given) if given else config.most
        for turn in range(limit):
            try:
                action = given[turn] if given else await env.expert()
            except UsageError:
                return self.refuse("unsolved", "nobody knows a solution, and the environment has no expert")
            seen = await env.step(action)
            self._done.append(action)
            self._steps += 1
            self._reward += seen.reward or 0.0
            if seen.done or seen.truncated:
                break
        verdict = await env.evaluate()
        self._score, self._success = verdict.score, verdict.success
        if len(self._done) < config.least and verdict.success:
            return self.refuse("trivial", f"{len(self._done)} actions solve it; at least {config.least} must")
        if verdict.success or (config.rewarded and self._reward > 0):
            return None
        shown = "none" if verdict.score is None else f"{verdict.score:g}"
        return self.refuse(
            "infeasible", f"after {len(self._done)} actions: score {shown}, reward {self._reward:g}, no success"
        )
