"""An environment whose expert makes two calls at once."""

from collections.abc import Iterable
from typing import ClassVar

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, Tool, assistant, call, user


class TwoCalls:
    """One task, one turn."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, max_turns=2)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """One."""
        yield Task(id="two_calls/0", env="two_calls", instruction="Twice.", split=split)

    async def reset(self, task: Task, seed: int) -> Observation:
        """The wish."""
        return Observation(messages=(user("Twice."),), tools=(Tool(name="act", description="", parameters={}),))

    async def step(self, action: Message) -> Observation:
        """The end."""
        return Observation(reward=1.0, done=True)

    async def evaluate(self) -> Evaluation:
        """Always right."""
        return Evaluation(score=1.0, success=True)

    async def expert(self) -> Message:
        """Two calls."""
        return assistant("", call("act", {}, "1"), call("act", {}, "2"))

    async def null(self) -> Message:
        """Nothing."""
        return assistant()

    async def close(self) -> None:
        """Nothing is held."""
