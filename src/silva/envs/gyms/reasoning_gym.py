"""reasoning-gym: procedurally generated questions of a hundred kinds, answered in one turn, scored by their generators.

task (generator, seed) ─▶ question ─▶ assistant's text ─▶ <answer>…</answer>, else all of it ─▶ score_answer
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import reasoning_gym
from reasoning_gym.factory import DATASETS

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, assistant, system, user

FLAWED = frozenset({"boxnet", "composite", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"})
"""Generators left out: they give no answer of their own (or need more than a seed), so full marks cannot be shown."""

_SEEDS = {"test": range(10), "train": range(1000, 1100)}
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_SYSTEM = system("Solve the problem. Think if you need to, then give the final answer between <answer> and </answer>.")


class ReasoningGym:
    """One question per episode. Everything is in the task, so the seed of a reset changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(snapshot="deepcopy", max_turns=1)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Ten (train: a hundred) questions of each generator, all generators in turn."""
        if split not in _SEEDS:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SEEDS)}")
        for seed in _SEEDS[split]:
            for generator in sorted(set(DATASETS) - FLAWED):
                yield Task(
                    id=f"reasoning_gym/{generator}/{seed}",
                    env="reasoning-gym",
                    instruction=f"A {generator.replace('_', ' ')} problem",
                    split=split,
                    data={"generator": generator, "seed": seed},
                    tags=(generator,),
                )

    async def reset(self, task: Task, seed: int) -> Observation:
        """The question."""
        self._begin(task.data["generator"], task.data["seed"])
        self._answer: str | None = None
        return Observation(messages=(_SYSTEM, user(self._entry["question"])), tools=())

    async def step(self, action: Message) -> Observation:
        """Take the answer; the episode is over."""
        found = _ANSWER.findall(action.text)
        self._answer = found[-1].strip() if found else action.text.strip() or None
        return Observation(reward=self._score(), done=True)

    async def evaluate(self) -> Evaluation:
        """The generator's own score; success is full marks."""
        score = self._score()
        return Evaluation(score=score, success=score >= 1.0)

    async def expert(self) -> Message:
        """The generator's own answer."""
        return assistant(f"<answer>{self._entry['answer']}</answer>")

    async def null(self) -> Message:
        """No answer."""
        return assistant()

    async def close(self) -> None:
        """Nothing is held."""

    def __getstate__(self) -> dict[str, Any]:
        """What a snapshot keeps: the question is its generator's, made again from the seed."""
        return {name: value for name, value in vars(self).items() if name not in ("_dataset", "_entry")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        if "_question" in kept:
            self._begin(*self._question)

    def _begin(self, generator: str, seed: int) -> None:
        self._question = (generator, seed)
        self._dataset: Any = reasoning_gym.create_dataset(generator, size=1, seed=seed)
        self._entry: dict[str, Any] = self._dataset[0]

    def _score(self) -> float:
        return min(1.0, max(0.0, float(self._dataset.score_answer(self._answer, self._entry))))
