"""Environments that keep their state in their own ways: by files of theirs, not at all, or not rightly."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from silva.envs.errors import EnvError
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import StoreError
from silva.tree import Task, user


class Replayed:
    """Counts its steps; keeps nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(max_turns=9)

    def __init__(self, folder: str = "") -> None:
        self.folder = Path(folder)
        self.count = 0

    @classmethod
    def tasks(cls, split="test"):
        yield Task(id="keeping/1", env="keeping")

    async def reset(self, task, seed):
        self.count = 0
        return Observation(messages=(user("go"),), tools=())

    async def step(self, action):
        self.count += 1
        return Observation(messages=(user(f"step {self.count}"),))

    async def evaluate(self):
        return Evaluation(score=self.count / 10, success=False)

    async def close(self):
        pass


class Locked(Replayed):
    """Says that it can be pickled, and cannot."""

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot="deepcopy")

    async def reset(self, task, seed):
        self.lock = threading.Lock()
        return await super().reset(task, seed)


class Files(Replayed):
    """Writes its count into a file when asked to."""

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot="files")
    gone: Callable[[str, str], Exception] = EnvError

    async def snapshot(self) -> str:
        name = uuid4().hex
        (self.folder / name).write_text(str(self.count))
        return name

    async def restore(self, snapshot: str) -> None:
        path = self.folder / snapshot
        if not path.is_file():
            raise self.gone("env.snapshot", f"snapshot {snapshot} is gone")
        self.count = int(path.read_text())


class Shelves(Files):
    """Says in the words of a store that a state is gone."""

    gone = staticmethod(lambda kind, text: StoreError(text))
