"""reasoning-gym: procedurally generated questions of a hundred kinds, answered in one turn, scored by their generators.

task (generator, seed, level) ─▶ question ─▶ assistant's text ─▶ <answer>…</answer>, else all of it ─▶ score_answer

What a place allows are questions of every generator, with a seed beyond those of the splits, as they come and at the
levels of difficulty that the generator's own curriculum knows. A place is a seed: nothing but the question is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import reasoning_gym
from reasoning_gym.factory import DATASETS, create_curriculum, has_curriculum

from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, assistant, system, user

FLAWED = frozenset({"boxnet", "composite", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"})
"""Generators left out: they give no answer of their own (or need more than a seed), so full marks cannot be shown."""

_SEEDS = {"test": range(10), "train": range(1000, 1100)}
_APART = 1_000_000
"""What is added to a place's seed, so that no question drawn for it is one of a split's."""
LEVELS = (1, 2)
"""Steps of a curriculum above its first that are offered."""
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
        said = task.data
        self._begin(said["generator"], said["seed"], said.get("level"))
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

    async def goals(self, task: Task) -> Sequence[Goal]:
        """A question of every generator, and harder ones where it has a curriculum."""
        seed = int(task.data["seed"]) % _APART + _APART
        found: list[Goal] = []
        for generator in sorted(set(DATASETS) - FLAWED):
            found.append(_goal(generator, seed, None))
            if has_curriculum(generator):
                found += [_goal(generator, seed, level) for level in LEVELS]
        return found

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The task's own question, where the first answer has full marks; there is nothing else to bring about."""
        if not actions:
            return []
        await self.reset(task, 0)
        await self.step(actions[0])
        said = task.data
        goal = _goal(said["generator"], said["seed"], said.get("level"))
        return [Achieved(goal=goal, turn=1, kept=(0,))] if self._score() >= 1.0 else []

    async def task(self, task: Task, goal: Goal) -> Task:
        """The question of a goal."""
        generator, seed, level = str(goal.data.get("generator")), goal.data.get("seed"), goal.data.get("level")
        if generator not in set(DATASETS) - FLAWED or not isinstance(seed, int):
            raise UsageError(f"{goal.data!r} is no goal: give a generator and a seed")
        try:
            self._begin(generator, seed, level)
        except (AssertionError, ValueError, TypeError) as error:  # some curricula go beyond what their generator takes
            raise UsageError(f"{goal.words}: its generator refuses it ({error})") from error
        return Task(
            id=f"reasoning_gym/{generator}/{seed}{'' if level is None else f'/level-{level}'}",
            env="reasoning-gym",
            instruction=goal.words,
            split="synthesised",
            data={"generator": generator, "seed": seed, **({} if level is None else {"level": level})},
            tags=(generator,),
        )

    async def close(self) -> None:
        """Nothing is held."""

    def __getstate__(self) -> dict[str, Any]:
        """What a snapshot keeps: the question is its generator's, made again from the seed."""
        return {name: value for name, value in vars(self).items() if name not in ("_dataset", "_entry")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        if "_question" in kept:
            self._begin(*self._question)

    def _begin(self, generator: str, seed: int, level: int | None = None) -> None:
        self._question = (generator, seed, level)
        more: dict[str, Any] = {} if level is None else _harder(generator, level)
        self._dataset: Any = reasoning_gym.create_dataset(generator, **{**more, "size": 1, "seed": seed})
        self._entry: dict[str, Any] = self._dataset[0]

    def _score(self) -> float:
        return min(1.0, max(0.0, float(self._dataset.score_answer(self._answer, self._entry))))


def _goal(generator: str, seed: int, level: int | None) -> Goal:
    name = generator.replace("_", " ")
    words = f"A {name} problem" + ("" if level is None else f", level {level}") + f", number {seed}"
    return Goal(words=words, data={"generator": generator, "seed": seed, "level": level}, pattern=generator)


def _harder(generator: str, level: int) -> dict[str, Any]:
    """The settings of a generator with all that its curriculum varies at a level, or at the highest there is.

    Raises:
        UsageError: the generator has no curriculum, or the level is none.
    """
    if not has_curriculum(generator) or not isinstance(level, int) or level < 0:
        raise UsageError(f"{generator} has no level {level!r}")
    curriculum: Any = create_curriculum(generator)
    for name, attribute in curriculum.attributes.items():
        curriculum.set_attr_level(name, min(level, len(attribute.levels) - 1))
    return {key: value for key, value in vars(curriculum.generate_configuration()).items() if not key.startswith("_")}
