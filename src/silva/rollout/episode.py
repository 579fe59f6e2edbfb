"""One episode: a task, a live environment and an agent grow one trajectory, which always ends in a record.

    lease ─▶ reset ─▶ (remembered turn or agent) ─▶ step ─▶ … ─▶ evaluate ─▶ Trajectory
                 └──── what happens around a turn: `silva.rollout.stages` ────┘

With several agents (`silva.rollout.roles`) each turn is one role's: `live` is that of the one who acts.

Whatever breaks is filed under the boundary where it broke; only infrastructure failures ask for another attempt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from silva.envs import EnvError, Observation
from silva.models.errors import ModelError
from silva.redact import redact
from silva.rollout.agent import AgentFor
from silva.rollout.config import RolloutConfig
from silva.rollout.ending import Ended, Stopped, failed
from silva.rollout.guided import Guidance
from silva.rollout.guided_return import WentBack
from silva.rollout.live import Live, Refusal
from silva.rollout.path import Diverged, Path
from silva.rollout.planting import plant_again
from silva.rollout.roles import Roles
from silva.rollout.slots import Slot
from silva.rollout.stages.order import pipeline
from silva.tree import Boundary, Failure, Message, Node, Outcome, Status, Trajectory


class Episode:
    """Grows one attempt at one slot. `overdrawn` tells, before each turn, whether the run's budget is spent;
    `guidance`, where given, what people say, and `heard` which words of it were heard before; `stored` are nodes of
    other roles of an attempt that was cut off."""

    def __init__(
        self,
        config: RolloutConfig,
        slot: Slot,
        path: Path,
        overdrawn: Callable[[], Failure | None],
        guidance: Guidance | None = None,
        heard: frozenset[str] = frozenset(),
        stored: Mapping[str, Sequence[Node]] | None = None,
    ) -> None:
        self._config = config
        self._slot = slot
        self._path = path
        self._live = Live(config, slot, path, overdrawn)
        stages, self._guided = pipeline(self._live, guidance, heard)
        self._roles = Roles(self._live, stages, stored)
        self._scores: dict[str, float] = {}
        self._left = 0  # attempts at the place that were left because a person went back
        self._went_back = False
        self._stopped: dict[str, str] = {}
        self.id = self._live.id

    async def run(
        self, lease: Any, agent_for: AgentFor, blobs: Any, another: Callable[[], Any] | None = None
    ) -> Trajectory:
        """Play the episode in the environment that `lease` (an async context manager) gives, and store its record;
        `another` leases further instances, in which a stage may try things out."""
        started, clock, live = time.time(), time.monotonic(), self._live
        outcome = Outcome(status=Status.COMPLETED)
        try:
            async with asyncio.timeout(self._config.deadlines.episode) as live.deadline, lease as live.env:
                live.agent, live.blobs = agent_for(live.env), blobs
                live.agent_for, live.another = agent_for, another
                live.limit = self._config.budget.turns or live.env.capabilities.max_turns
                self._roles.begin(agent_for)
                outcome = await self._play(live)
        except TimeoutError:
            seconds = self._config.deadlines.episode
            outcome = failed(Boundary.BUDGET, "budget.episode_time", f"episode took longer than {seconds:g} s")
        except WentBack:
            self._went_back, outcome = True, Outcome(status=Status.TRUNCATED)
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

    async def finish(self, trajectory: Trajectory) -> None:
        """Write what is pending and the record, and wait until all of it is on disk."""
        await self._roles.finish()
        await self._path.finish(trajectory)

    async def _play(self, live: Live) -> Outcome:
        observation, cut = Observation(), False
        try:
            live, observation = await self._begin(live)
            while not (observation.done or observation.truncated):
                action = await self._action(live)
                acted = live.path
                observation, seconds = await timed(live.env.step(action))
                live, observation = await self._see(observation, seconds)
                await acted.durable()
        except Stopped as stopped:
            cut = True
            self._stopped = {"by": stopped.by, "why": stopped.why} if stopped.by else {}
        await self._roles.at_end()
        evaluation = await self._roles.on_evaluation(await live.env.evaluate())
        self._scores = evaluation.roles
        return Outcome(
            status=Status.TRUNCATED if cut or observation.truncated else Status.COMPLETED,
            score=evaluation.score,
            success=evaluation.success,
            safety=evaluation.safety,
            metrics=evaluation.metrics,
        )

    async def _begin(self, live: Live) -> tuple[Live, Observation]:
        """Bring the environment and the path to where an agent acts first; return who it is and what was observed
        last."""
        observation, seconds = await timed(live.env.reset(self._slot.task, self._slot.seed))
        return await self._see(observation, seconds)

    async def _action(self, live: Live) -> Message:
        """The next action that is taken: a remembered one, or the agent's as the stages leave it.

        Raises:
            Stopped: no turn is left, the model's context is full, or a stage ends the episode.
        """
        path, stages = live.path, self._roles.stages(live)
        while path.turns < live.limit:
            action: Node | None = None
            if path.followed is not None:  # the way of a resumed episode
                self._recall(live, path.recall)
                action = path.remembered
            if action is None:
                await stages.before_turn(live)
                turn, started = await live.ask()
                said = await stages.on_action(live, turn)
                if isinstance(said, Refusal):
                    await live.refuse(turn, started, said)
                    continue
                action = path.act(said, started)
            else:
                path.remember(action)
                stages.recall(live, [action])
                if path.refused:
                    continue
                if path.followed is not None:
                    return action.message
            action = await stages.settle(live, action)
            if action is not None:
                return action.message
        raise Stopped

    async def _see(self, observation: Observation, seconds: float) -> tuple[Live, Observation]:
        """Put what the environment said on the path of the role it is said to, as the stages let that agent see it;
        what was seen before is seen again. Returns whose turn it is, and what it sees."""
        live = self._roles.addressed(observation)
        observation, voice = self._roles.told(observation)
        if live.path.followed is not None:
            await _keep_images(live, observation)
            before = len(live.path.walk)
            self._recall(live, lambda: live.path.observe(observation, seconds, voice=voice))
            await plant_again(live.env, live.path.walk[before:])
            return live, observation
        stages = self._roles.stages(live)
        shown = await stages.on_observation(live, observation)
        if observation.blobs or shown.observation.blobs:
            await _keep_images(live, observation, shown.observation)
        live.path.observe(observation, seconds, shown, voice)
        if live.path.turns:
            await stages.after_turn(live, shown.observation)
        return live, shown.observation

    def _recall(self, live: Live, taking: Callable[[], None]) -> None:
        before = len(live.path.walk)
        taking()
        self._roles.stages(live).recall(live, live.path.walk[before:])

    def _attributes(self, outcome: Outcome) -> dict[str, Any]:
        """What the trajectory's record says besides."""
        stopped = {"stopped": self._stopped} if self._stopped else {}
        return {**stopped, **self._roles.attributes(self._scores, outcome.score)}

    def _again(self, failure: Failure | None) -> bool:
        """Whether another attempt at the place follows this one."""
        tried = self._slot.attempt - self._left
        return self._went_back or bool(failure and failure.retryable and tried < self._config.retries)

    def _record(self, outcome: Outcome, started: float, seconds: float) -> Trajectory:
        path, slot, config = self._path, self._slot, self._config
        failure = outcome.failure
        if failure is not None:
            failure = msgspec.structs.replace(failure, message=redact(failure.message))
            outcome = msgspec.structs.replace(outcome, failure=failure)
        usage, leaf = self._roles.usage, path.leaf
        waited = usage.model_seconds + usage.env_seconds
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
            usage=msgspec.structs.replace(usage, silva_seconds=max(0.0, seconds - waited)),
            started=started,
            finished=started + seconds,
            attributes=self._attributes(outcome),
            superseded=self._again(failure),
        )


async def _keep_images(live: Live, *observations: Observation) -> None:
    for name, data in {name: data for each in observations for name, data in each.blobs.items()}.items():
        stored = await live.blobs.put_blob(data)
        if stored != name:
            message = f"the environment named a blob {name[:16]}, its content hashes to {stored[:16]}"
            raise Ended(Failure(boundary=Boundary.ENVIRONMENT, code="env.blob", message=message))
        live.images[name] = data


async def timed(awaitable: Any) -> tuple[Any, float]:
    """What comes of it, and after how many seconds."""
    clock = time.monotonic()
    value = await awaitable
    return value, time.monotonic() - clock
