"""Environments that reward vowels, so that the replies of an untrained policy differ in what they are worth."""

from __future__ import annotations

from pathlib import Path

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, user

VOWELS = str(Path(__file__))
"""Where an environment of these is found: `f"{VOWELS}:Vowels"`."""


class Vowels:
    """One reply."""

    capabilities = Capabilities()
    turns = 1

    @classmethod
    def tasks(cls, split: str = "train") -> list[Task]:
        return [Task(id=f"vowels/{n}", env="vowels", instruction=f"Say {n}.", split=split) for n in range(6)]

    async def reset(self, task: Task, seed: int) -> Observation:
        self.said: list[str] = []
        return Observation(messages=(user(task.instruction),))

    async def step(self, action: Message) -> Observation:
        self.said.append(action.text)
        done = len(self.said) == self.turns
        return Observation(messages=() if done else (user("Say 0."),), done=done)

    async def evaluate(self) -> Evaluation:
        said = "".join(self.said)
        score = sum(letter in "aeiou" for letter in said) / max(1, len(said))
        return Evaluation(score=score, success=score > 0.5)


class VowelsTwice(Vowels):
    """Two replies."""

    turns = 2
