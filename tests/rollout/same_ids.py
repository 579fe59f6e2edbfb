"""Two environments whose tasks have the same ids and differ."""

from __future__ import annotations

from collections.abc import Iterable

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, assistant, user


class One:
    """It looks its task up by the id it gave."""

    capabilities = Capabilities(max_turns=2)
    word = "one"

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        return (Task(id=f"{n}", env=cls.word, instruction=f"Say {cls.word} {n}.", data={"n": n}) for n in range(3))

    async def reset(self, task: Task, seed: int) -> Observation:
        found = {each.id: each for each in self.tasks()}[task.id]
        assert found == task
        return Observation(messages=(user(found.instruction),))

    async def step(self, action: Message) -> Observation:
        return Observation(messages=(user(f"heard by {self.word}"),), done=True)

    async def evaluate(self) -> Evaluation:
        return Evaluation(score=1.0, success=True)

    async def expert(self) -> Message:
        return assistant(self.word)

    async def null(self) -> Message:
        return assistant("nothing")

    async def close(self) -> None:
        pass


class Two(One):
    """The same numbers, other tasks."""

    word = "two"
