"""An environment whose host ends itself as long as the file it is given holds a number above 0; or whose task is at
fault, and raises."""

import os
from pathlib import Path
from typing import ClassVar

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Task, assistant, user


class Falling:
    capabilities: ClassVar[Capabilities] = Capabilities(max_turns=2)

    def __init__(self, deaths=""):
        self.deaths = Path(deaths)

    @classmethod
    def tasks(cls, split="train"):
        for name in ("fine", "raises"):
            yield Task(id=f"falling/{name}", env="falling", split=split)

    async def reset(self, task, seed):
        self.raises = task.id.endswith("raises")
        return Observation(messages=(user("go"),), tools=())

    async def step(self, action):
        left = int(self.deaths.read_text())
        if self.raises:
            raise RuntimeError("the floor gave way")
        if left:
            self.deaths.write_text(str(left - 1))
            os._exit(7)
        return Observation(messages=(user("done"),), done=True, reward=1.0)

    async def evaluate(self):
        return Evaluation(score=1.0, success=True)

    async def expert(self):
        return assistant("step")

    async def close(self):
        pass
