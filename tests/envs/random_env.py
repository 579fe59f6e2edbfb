"""Environments that draw from the global random generators, as many simulators do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, assistant, user


class Dice:
    """Four rolls of two dice, one of them numpy's."""

    capabilities: ClassVar[Capabilities] = Capabilities(max_turns=6)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        return (Task(id=f"dice/{n}", env="dice") for n in range(3))

    async def reset(self, task: Task, seed: int) -> Observation:
        random.seed(seed)
        np.random.seed(seed)
        self.turns = 0
        return Observation(messages=(user(f"Roll. {random.random()}"),))

    async def step(self, action: Message) -> Observation:
        self.turns += 1
        first = random.randint(1, 10**6)
        await asyncio.sleep(0)
        return Observation(messages=(user(f"{first} {np.random.randint(10**6)}"),), done=self.turns >= 4)

    async def evaluate(self) -> Evaluation:
        return Evaluation(score=1.0, success=True)

    async def expert(self) -> Message:
        return assistant("roll")

    async def null(self) -> Message:
        return assistant("roll")

    async def close(self) -> None:
        pass


class Leaky(Dice):
    """One whose state lies where no instance owns it."""

    drawn: ClassVar[list[int]] = [0]

    async def reset(self, task: Task, seed: int) -> Observation:
        Leaky.drawn[0] = seed
        return await super().reset(task, seed)

    async def step(self, action: Message) -> Observation:
        Leaky.drawn[0] += 1
        said = await super().step(action)
        return Observation(messages=(user(str(Leaky.drawn[0])),), done=said.done)


class Clock(Dice):
    """One that never says the same twice."""

    times: ClassVar[list[int]] = [0]

    async def reset(self, task: Task, seed: int) -> Observation:
        Clock.times[0] += 1
        return Observation(messages=(user(str(Clock.times[0])),), done=False)

    async def step(self, action: Message) -> Observation:
        return Observation(messages=(user("tick"),), done=True)


class Claims(Dice):
    """Says that it draws from no global generator, which is not true."""

    own_random: ClassVar[bool] = True
