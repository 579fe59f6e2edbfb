"""What the tests of online runs put in the place of a model and of torch: a scripted model that is stamped with the
version that answers, and an engine that counts what it was given."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.model import Completion, Delta, Request
from silva.models.retry import Retry
from silva.models.scripted import Answer, Script, ScriptedProcess
from silva.train.algorithms.advantages import score
from silva.train.engines.engine import StepResult, Update
from silva.train.online.config import OnlineConfig
from silva.train.online.publisher import Named
from silva.train.sample import Sample

SPLIT = "test"


class Compared:
    """An algorithm that scores groups and has no loss."""

    name: ClassVar[str] = "compared"
    needs = frozenset({"logprobs", "group"})

    def score(self, group: Sequence[Sample]) -> Any:
        return score(group, mixed_versions=True)


class CountingEngine:
    """Weights that are one number: how often what was trained. Everything it was given is in `trained`."""

    def __init__(self, seconds: float = 0.0, loss: float = 1.0) -> None:
        self.step = 0
        self.seconds, self.loss = seconds, loss
        self.trained: list[list[str]] = []
        self.published: list[tuple[int, str]] = []
        self.restored: list[int] = []
        self.total = 0

    def forward_backward(self, samples: Sequence[Sample], algorithm: Any) -> StepResult:
        time.sleep(self.seconds)
        self.trained.append([f"{sample.task_id}#{sample.index}" for sample in samples])
        self.total = (
            self.total * 31 + sum(int(sample.ids.sum()) * (sample.index + 1) for sample in samples)
        ) % 1_000_003
        return StepResult(loss=self.loss, samples=len(samples), tokens=sum(map(len, samples)))

    def evaluate(self, samples: Sequence[Sample], algorithm: Any) -> StepResult:
        return StepResult(loss=self.loss)

    def optim_step(self, learning_rate: float) -> Update:
        self.step += 1
        return Update(learning_rate=learning_rate, gradient_norm=1.0, applied=True)

    def save_weights_for_sampler(self, folder: Path) -> Path:
        folder.mkdir()
        (folder / "numbers").write_text(f"{self.step} {self.total}")
        return folder

    def save_state(self, folder: Path) -> None:
        (folder / "state").write_text(json.dumps([self.step, self.total]))

    def load_state(self, folder: Path) -> None:
        self.step, self.total = json.loads((folder / "state").read_text())


class Stamped(Named):
    """A `Publisher` whose model answers in the name of the version that was published last. `published` keeps what it
    was given: step and weights; `restored` the steps it went back to."""

    def __init__(self, url: str, token: str | None = None, retry: Retry | None = None) -> None:
        super().__init__("v")
        endpoint = Endpoint(url=url, model="scripted", token_ids=True, api_key_env="")
        self._client = Client(endpoint, api_key=token, retry=retry)
        self.version = "base"
        self.published: list[tuple[int, str]] = []
        self.restored: list[int] = []

    @property
    def model(self) -> Any:
        return self

    async def publish(self, folder: Path, step: int) -> None:
        self.published.append((step, (folder / "numbers").read_text()))
        self.version = self.name(step)

    async def restore(self, step: int) -> str:
        self.restored.append(step)
        self.version = self.name(step) if step else "base"
        return self.version

    async def complete(self, request: Request) -> Completion:
        version = self.version
        completion = await self._client.complete(request)
        return msgspec.structs.replace(completion, policy_version=version)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        async for delta in self._client.stream(request):
            yield delta

    async def close(self) -> None:
        await self._client.close()


@asynccontextmanager
async def stamped_process(script: Script) -> AsyncIterator[Stamped]:
    """The same before a model in a process of its own."""
    async with ScriptedProcess(script) as server:
        stamped = Stamped(server.url, server.token)
        try:
            yield stamped
        finally:
            await stamped.close()


def half_right(request: dict[str, Any]) -> Answer:
    """Right for every other seed, so that attempts at one task differ."""
    numbers = [int(word.strip("()")) for word in request["messages"][-1]["content"].removesuffix(" = ?").split(" + ")]
    return Answer(text=str(sum(numbers) + int(request["seed"] or 0) % 2))


def always_right(request: dict[str, Any]) -> Answer:
    """Right at every attempt: nothing to compare."""
    numbers = [int(word.strip("()")) for word in request["messages"][-1]["content"].removesuffix(" = ?").split(" + ")]
    return Answer(text=str(sum(numbers)))


def at_times_long(request: dict[str, Any]) -> Answer:
    """The same, after many words where the first number is odd."""
    answer = half_right(request)
    first = int(request["messages"][-1]["content"].split(" ")[0].strip("()"))
    return Answer(text=f"{'so ' * 60}{answer.text}") if first % 2 else answer


def configured(folder: Path, **fields: Any) -> OnlineConfig:
    """A small run on one-turn sums."""
    rollout = {"env": "arithmetic", "lake": str(folder / "lake"), "pool": 4, "hosts": {"inline": True}}
    rollout |= {"tasks": {"split": SPLIT, "limit": 12}} | fields.pop("rollout", {})
    settings = {"run": "run", "output": str(folder / "out"), "steps": 3, "batch": 2, "group": 4, "rollout": rollout}
    return OnlineConfig.model_validate({**settings, **fields})
