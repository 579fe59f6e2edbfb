"""One episode: a task, a live environment and an agent grow one trajectory, which always ends in a record.

    lease ─▶ reset ─▶ (remembered turn or agent) ─▶ step ─▶ … ─▶ evaluate ─▶ Trajectory

Whatever breaks is filed under the boundary where it broke; only infrastructure failures ask for another attempt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from silva.envs import EnvError, Observation
from silva.models.errors import ModelError
from silva.models.model import Sampling
from silva.redact import redact
from silva.rollout.agent import Agent, Turn, View
from silva.rollout.branching.keeper import Keeper
from silva.rollout.config import RolloutConfig
from silva.rollout.guided import Guidance, Guided
from silva.rollout.guided_approval import Approval
from silva.rollout.guided_nodes import ASKED, REFUSED, REFUSES
from silva.rollout.guided_return import WentBack
from silva.rollout.path import Diverged, Path
from silva.rollout.slots import Slot
from silva.rollout.summarising import Summarising
from silva.rollout.summary import context, in_force
from silva.rollout.watching import Watching
from silva.tree import (
    Boundary,
    Failure,
    Message,
    Outcome,
    Status,
    Trajectory,
    digest,
    trajectory_id,
)


class Ended(Exception):
    """The episode ends with this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


SEEDS = 1 << 31
"""Sampling seeds stay below this: some servers take a signed 32-bit number only."""


class Episode:
    """Grows one attempt at one slot. `overdrawn` tells, before each turn, whether the run's budget is spent;
    `guidance`, where given, what people say, and `heard` which words of it were heard before."""

    def __init__(
        self,
        config: RolloutConfig,
        slot: Slot,
        path: Path,
        overdrawn: Callable[[], Failure | None],
        guidance: Guidance | None = None,
        heard: frozenset[str] = frozenset(),
    ) -> None:
        self._config = config
        self._slot = slot
        self._path = path
        self._overdrawn = overdrawn
        self._images: dict[str, bytes] = {}
        self._keeper = Keeper(config.snapshots) if config.snapshots.wanted else None
        self.id = trajectory_id(config.run, slot.task.id, slot.index, slot.attempt)
        self._guided = Guided(guidance, path, config.run, slot, heard) if guidance is not None else None
        self._approval = Approval(config) if guidance is not None and config.guidance.wanted else None
        self._left = 0  # attempts at the place that were left because a person went back
        self._watching = guidance if isinstance(guidance, Watching) else None
        at = config.summary_at
        self._summarising = Summarising(config.summary, at, path) if at is not None else None
        self._limit = 0
        self._sampling_seed = int(digest(str(config.seed), slot.task.id, str(slot.index))[:8], 16)

    async def run(self, lease: Any, agent_for: Callable[[Any], Agent], blobs: Any) -> Trajectory:
        """Play the episode in the environment that `lease` (an async context manager) gives, and store its record."""
        started = time.time()
        clock = time.monotonic()
        outcome = Outcome(status=Status.COMPLETED)
        try:
            async with asyncio.timeout(self._config.deadlines.episode) as self._deadline, lease as env:
                outcome = await self._play(env, agent_for(env), blobs)
        except TimeoutError:
            seconds = self._config.deadlines.episode
            outcome = failed(Boundary.BUDGET, "budget.episode_time", f"episode took longer than {seconds:g} s")
        except WentBack:
            outcome = Outcome(status=Status.TRUNCATED)
        except Ended as ended:
            outcome = Outcome(status=Status.FAILED, failure=ended.failure)
        except EnvError as error:
            outcome = Outcome(status=Status.FAILED, failure=error.failure())
        except ModelError as error:
            outcome = failed(Boundary.MODEL, f"model.{error.kind}", str(error))
        except Diverged as error:
            outcome = failed(
                Boundary.INFRASTRUCTURE, "resume.diverged", f"the environment did not repeat itself {error}", True
            )
        return self._record(outcome, started, time.monotonic() - clock)

    async def _play(self, env: Any, agent: Agent, blobs: Any) -> Outcome:
        path, config = self._path, self._config
        limit = self._limit = config.budget.turns or env.capabilities.max_turns
        observation = await self._begin(env, blobs)
        truncated = False
        while not (observation.done or observation.truncated):
            if path.turns >= limit:
                truncated = True
                break
            action = await self._turn(agent, env, blobs)
            if action is None:
                truncated = True
                break
            observation, seconds = await _timed(env.step(action))
            await self._see(observation, seconds, blobs)
            if self._keeper is not None and self._keeper.after(path.turns, observation):
                await self._keeper.keep(env, path, blobs)
            await path.durable()
        self._show()
        if self._guided is not None:
            self._guided.last_words()
        evaluation, _ = await _timed(env.evaluate())
        cut = truncated or observation.truncated
        return Outcome(
            status=Status.TRUNCATED if cut else Status.COMPLETED,
            score=evaluation.score,
            success=evaluation.success,
            safety=evaluation.safety,
            metrics=evaluation.metrics,
        )

    async def _begin(self, env: Any, blobs: Any) -> Observation:
        """Bring the environment and the path to where the agent acts first; return what was observed last."""
        observation, seconds = await _timed(env.reset(self._slot.task, self._slot.seed))
        await self._see(observation, seconds, blobs)
        return observation

    async def _turn(self, agent: Agent, env: Any, blobs: Any) -> Message | None:
        """The next action to take; None when the model's context is full, a person ends the episode, or too many
        actions were refused, which truncates it."""
        path = self._path
        while path.turns < self._limit:
            path.recall_words()
            remembered = path.remembered
            if remembered is not None:
                path.remember(remembered)
                behind = path.followed
                if REFUSED in remembered.attributes or (behind is not None and REFUSES in behind.attributes):
                    continue
                if ASKED not in remembered.attributes or behind is not None or self._approval is None:
                    return remembered.message
                decided = await self._decided()
                if decided is None:
                    continue
                return decided
            if self._summarising is not None and self._overdrawn_here() is None:
                await self._summarising.attend(agent, self._view)
            self._show()
            if self._guided is not None:
                await self._guided.attend(self._put_off)
                if self._guided.stopped is not None:
                    return None
            turn, started = await self._asked(agent)
            if turn is None:
                return None
            refused = self._guided.refusal(turn.message) if self._guided is not None else None
            if refused is None or self._guided is None:
                if self._keeper is not None and self._keeper.before(turn):
                    await self._keeper.keep(env, path, blobs)
                asked = self._approval.reasons(turn.message) if self._approval is not None else ()
                if not asked:
                    path.act(turn, started)
                    return turn.message
                path.act(msgspec.structs.replace(turn, attributes={**turn.attributes, ASKED: list(asked)}), started)
                decided = await self._decided()
                if decided is None:
                    continue
                return decided
            turn = msgspec.structs.replace(turn, attributes={**turn.attributes, REFUSED: refused.by})
            path.act(turn, started, hold=True)
            self._guided.refuse(refused)
            path.send()
            await path.durable()
        return None

    async def _decided(self) -> Message | None:
        """What is done in the place of the last action on the path, which waits; None where nothing is."""
        path, guided = self._path, self._guided
        assert guided is not None
        await path.durable()
        said = await guided.decide(path.walk[-1], self._put_off)
        if said is None:
            return None  # somebody ends the episode
        if said.kind == "edit":
            return guided.edited(said)
        action = path.walk[-1].message
        if said.kind == "approve":
            guided.approved(said)
            return action
        guided.refuse(said)
        return None

    def _show(self) -> None:
        if self._watching is not None:
            self._watching.watch(self.id, self._slot.task.id, self._path.walk)

    def _put_off(self, seconds: float) -> None:
        """The deadline waits with an episode that is paused."""
        end = self._deadline.when()
        if end is not None:
            self._deadline.reschedule(end + seconds)

    async def _asked(self, agent: Agent) -> tuple[Turn | None, float]:
        """The agent's next turn, and when it was begun; None when the model's context is full."""
        path = self._path
        spent = self._overdrawn_here()
        if spent is not None:
            raise Ended(spent)
        started = time.time()
        try:
            turn = await agent.act(self._view(context(path.walk, in_force(path.walk, path.summaries))))
        except ModelError as error:
            path.waited(time.time() - started)
            if error.kind == "context_length" and path.turns:
                return None, started
            raise
        return turn, started

    def _view(self, messages: tuple[Message, ...]) -> View:
        return View(
            messages=messages,
            tools=self._path.tools,
            sampling=self._sampling(self._path.turns),
            deadline=self._config.deadlines.model,
            session=self.id,
            images=self._images,
        )

    def _overdrawn_here(self) -> Failure | None:
        return self._overdrawn() or self._episode_overdrawn()

    def _attributes(self) -> dict[str, Any]:
        """What the trajectory's record says besides."""
        if self._guided is not None and self._guided.returning is not None:
            return self._guided.returning.attributes()
        stopped = self._guided.stopped if self._guided is not None else None
        return {} if stopped is None else {"stopped": {"by": stopped.by, "why": stopped.why or stopped.text}}

    async def _see(self, observation: Any, seconds: float, blobs: Any) -> None:
        for name, data in observation.blobs.items():
            stored = await blobs.put_blob(data)
            if stored != name:
                raise Ended(
                    Failure(
                        boundary=Boundary.ENVIRONMENT,
                        code="env.blob",
                        message=f"the environment named a blob {name[:16]}, its content hashes to {stored[:16]}",
                    )
                )
            self._images[name] = data
        self._path.observe(observation, seconds)

    def _episode_overdrawn(self) -> Failure | None:
        limit = self._config.budget.episode_tokens
        usage = self._path.usage
        used = usage.prompt_tokens + usage.completion_tokens
        if limit is None or used < limit:
            return None
        return Failure(
            boundary=Boundary.BUDGET, code="budget.episode_tokens", message=f"{used} tokens used of {limit} an episode"
        )

    def _sampling(self, turn: int) -> Sampling:
        wanted = self._config.sampling
        return Sampling(
            temperature=wanted.temperature,
            top_p=wanted.top_p,
            max_tokens=wanted.max_tokens,
            stop=wanted.stop,
            seed=(self._sampling_seed + turn) % SEEDS,
            logprobs=wanted.logprobs,
        )

    def _again(self, failure: Failure | None) -> bool:
        """Whether another attempt at the place follows this one."""
        if self._guided is not None and self._guided.returning is not None:
            return True
        tried = self._slot.attempt - self._left
        return bool(failure and failure.retryable and tried < self._config.retries)

    def _record(self, outcome: Outcome, started: float, seconds: float) -> Trajectory:
        path, slot, config = self._path, self._slot, self._config
        failure = outcome.failure
        if failure is not None:
            failure = msgspec.structs.replace(failure, message=redact(failure.message))
            outcome = msgspec.structs.replace(outcome, failure=failure)
        waited = path.usage.model_seconds + path.usage.env_seconds
        leaf = path.leaf
        return Trajectory(
            id=self.id,
            run_id=config.run,
            tree_id=slot.tree_id,
            task_id=slot.task.id,
            env=slot.task.env,
            index=slot.index,
            attempt=slot.attempt,
            seed=slot.seed,
            leaf_id=leaf.id if leaf else None,
            outcome=outcome,
            agent=config.agent if config.policy == "model" else config.policy,
            model=config.policy_name,
            policy_version=leaf.policy_version if leaf else "",
            turns=path.turns,
            reward=path.reward,
            usage=msgspec.structs.replace(path.usage, silva_seconds=max(0.0, seconds - waited)),
            started=started,
            finished=time.time(),
            attributes={**self._attributes(), **(self._summarising.attributes() if self._summarising else {})},
            superseded=self._again(failure),
        )


async def _timed(awaitable: Any) -> tuple[Any, float]:
    clock = time.monotonic()
    value = await awaitable
    return value, time.monotonic() - clock


def failed(boundary: Boundary, code: str, message: str, retryable: bool = False) -> Outcome:
    """The outcome of an episode that broke at a boundary."""
    failure = Failure(boundary=boundary, code=code, message=message, retryable=retryable)
    return Outcome(status=Status.FAILED, failure=failure)
