"""Hindsight for bridged Gymnasium environments whose observations are counted: to be where one observes just that.

    actions ─▶ the environment, begun with seed 0 ─▶ observations, each for the first time ─▶ "bring it about that you
    observe 12" ─▶ a task that is over when that is observed

A bridge knows nothing of what its environment is about, so it can say what was observed and nothing more: hindsight,
and no goals beforehand. Chance is part of a place: a task with a goal is begun with seed 0 whatever the run's seed is,
so that what was brought about once can be brought about again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import gymnasium
import msgspec

from silva.envs.gyms.spaces import to_json
from silva.envs.protocol import Achieved, Environment, Evaluation, Goal, Observation
from silva.envs.synthesis import loops_cut
from silva.errors import UsageError
from silva.tree import Message, Task, assistant, call, user

_LONGEST = 200


def counted(space: Any) -> bool:
    """Whether the values of a space can be told apart and counted."""
    if isinstance(space, gymnasium.spaces.Tuple):
        return all(map(counted, space.spaces))
    kinds = (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.MultiBinary)
    return isinstance(space, kinds)


class Counted:
    """What stands before `GymnasiumBridge` in a class whose observations are counted: it can say what was observed, and
    ask for it."""

    env_id: ClassVar[str]
    _env: Any
    _ended: bool

    async def reset(self, task: Task, seed: int) -> Observation:
        """As `GymnasiumBridge.reset`; a goal is asked for besides, and begun with seed 0."""
        self._goal: str | None = task.data.get("goal", {}).get("observed")
        self._held = False
        opening = await self._bridge.reset(task, 0 if self._goal is not None else seed)
        self._seen = opening.messages[-1].parts[-1].text  # type: ignore[union-attr]
        if self._goal is None:
            return opening
        asked = user(f"Your task: {_goal(self._goal).words}.")
        return msgspec.structs.replace(opening, messages=(*opening.messages, asked))

    async def step(self, action: Message) -> Observation:
        """As `GymnasiumBridge.step`; a goal that is observed ends the episode."""
        seen = await self._bridge.step(action)
        for answer in seen.messages:
            if len(answer.parts) == 2:  # an observation and its reward; an error has no observation
                self._seen = answer.parts[0].text  # type: ignore[union-attr]
                self._held = self._held or self._seen == self._goal
        if self._goal is None:
            return seen
        done = self._held or seen.done
        return msgspec.structs.replace(seen, reward=float(self._held), done=done, truncated=seen.truncated and not done)

    async def evaluate(self) -> Evaluation:
        """As `GymnasiumBridge.evaluate`; of a goal, whether it was observed."""
        found = await self._bridge.evaluate()
        if self._goal is None:
            return found
        return Evaluation(score=float(self._held), success=self._held, metrics=found.metrics)

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """Every observation that was made for the first time."""
        place = msgspec.structs.replace(task, data={**task.data, "goal": {}})
        await self.reset(place, 0)
        states, found = [self._seen], list[Achieved]()
        for turn, action in enumerate(actions, 1):
            over = (await self.step(action)).done or self._ended
            if self._seen not in states and len(self._seen) <= _LONGEST:
                kept = (*loops_cut(states), turn - 1)
                found.append(Achieved(goal=_goal(self._seen), turn=turn, kept=kept))
            states.append(self._seen)
            if over:
                break
        return found

    async def task(self, task: Task, goal: Goal) -> Task:
        """The same beginning with that observation as its goal.

        Raises:
            UsageError: no such observation can be made.
        """
        wanted = goal.data.get("observed")
        if not isinstance(wanted, str) or not 0 < len(wanted) <= _LONGEST:
            raise UsageError(f"{goal.data!r} is no goal: give what is observed, as JSON text")
        name, number = f"gymnasium/{self.env_id}", task.data["number"]
        return Task(
            id=f"{name}/{number}/observed-{wanted.strip('[]').replace(', ', '-')}",
            env=name,
            instruction=f"{self.env_id}, beginning {number}: {_goal(wanted).words}",
            split="synthesised",
            data={"number": number, "goal": {"observed": wanted}},
        )

    @property
    def _bridge(self) -> Environment:
        """The class behind this one."""
        return cast(Environment, super())

    async def actions(self) -> Sequence[Message]:
        """Every action of a space of single choices; none of any other."""
        space: Any = self._env.action_space
        if not isinstance(space, gymnasium.spaces.Discrete):
            return []
        values = range(int(space.start), int(space.start + space.n))
        return [assistant("", call("act", {"action": to_json(space, value)})) for value in values]


def _goal(observed: str) -> Goal:
    return Goal(words=f"bring it about that you observe {observed}", data={"observed": observed}, pattern="observe")
