"""What is learnt: an environment's tasks, kept apart, and how they are played.

    babyai           GoToObjS4 and GoToLocalS5N2: two small rooms, an object named in the mission, several turns
    babyai-steps     small rooms in layouts of their own, as many as are needed (sport.py)
    depot-steps      errands in a depot (examples/curateevo/depot.py), of which some cannot be done (sport.py)
    babyai-rooms     larger rooms of the same, one object or few, five to ten turns: a wrong turn has time to cost more
    babyai-acts      doors to open and things to pick up, after rooms in which one only walks (`first`)
    reasoning-gym/…  one generator's questions, one turn, the answer between tags
    houses           the skills' (examples/skills/houses.py): a lever to pull that only who was there knows
    depot            CurateEvo's (examples/curateevo/depot.py): a log full of faults to learn from, some goals infeasible
    halls            CoEvolve's (examples/coevolve/halls.py): doors behind doors, whose keys have to be found out
    boxes            CoEvolve's (examples/coevolve/boxes.py): goals may be out of reach; most tasks to learn from are easy
    workshop         CoEvolve's (examples/coevolve/workshop.py): things made of one another; with what, has to be found out
    errands          the safety loop's (examples/safety/errands.py): take, give, say so; some ask to do what a note says

Tasks to learn from and tasks to measure on come from different seeds of the same levels or generator, and none of the
second kind has the first question of one of the first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silva.envs import Registry
from silva.rollout import RolloutConfig
from silva.rollout.run import host_pool
from silva.tree import Task, digest


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One environment. `play` goes into every rollout; `tags` choose levels of BabyAI,
    `first` those that are taught before; `per_turn` bounds a turn."""

    env: str
    play: dict[str, Any]
    held_out: int
    tags: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    generator: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def tasks(self) -> tuple[list[Task], list[Task]]:
        """The tasks to learn from, and `held_out` tasks to measure on; the same in every run."""
        if self.generator:
            return self._questions(1000, 2000), self._questions(0, self.held_out)
        return asyncio.run(self._levels())

    def first_tasks(self) -> list[Task]:
        """The tasks of the levels that are taught before."""
        return asyncio.run(self._of(self.first))

    def measured(self, count: int) -> list[Task]:
        """The first `count` tasks to measure on; a generator has more of them than `held_out`."""
        return self._questions(0, count) if self.generator else self.tasks()[1][:count]

    def _questions(self, first: int, stop: int) -> list[Task]:
        return [
            Task(
                id=f"reasoning_gym/{self.generator}/{seed}",
                env=self.env,
                instruction=f"A {self.generator.replace('_', ' ')} problem",
                data={"generator": self.generator, "seed": seed},
                tags=(self.generator,),
            )
            for seed in range(first, stop)
            if (self.generator, seed) not in _ENDLESS
        ]

    async def _levels(self) -> tuple[list[Task], list[Task]]:
        found = await self._of(self.tags)
        return found[self.held_out :], found[: self.held_out]

    async def _of(self, tags: tuple[str, ...]) -> list[Task]:
        config = RolloutConfig(env=(self.env,))
        async with host_pool(self.env, Registry.load().entry(self.env), config) as pool:
            found = [task for task in await pool.tasks(split="train") if set(tags) & set(task.tags)]
        return sorted(found, key=lambda task: digest("learning", task.id))


@dataclass(frozen=True, kw_only=True)
class Errands(Setting):
    """Errands, of which each has a twin that asks to do what a note says; twins stand on one side, and so do all
    errands with one thing for one person."""

    def tasks(self) -> tuple[list[Task], list[Task]]:
        """See `Setting`; `held_out` counts errands with their twins."""
        found = asyncio.run(self._of(self.tags))
        by_pair: dict[str, list[Task]] = {}
        for task in found:
            by_pair.setdefault(f"{task.data['thing']} {task.data['person']}", []).append(task)
        pairs = [by_pair[each] for each in sorted(by_pair, key=lambda each: digest("learning", each))]
        held = next(count for count in range(len(pairs)) if sum(map(len, pairs[:count])) >= self.held_out)
        return [task for pair in pairs[held:] for task in pair], [task for pair in pairs[:held] for task in pair]


@dataclass(frozen=True, kw_only=True)
class Split(Setting):
    """An environment whose own splits `train` and `test` are apart."""

    def tasks(self) -> tuple[list[Task], list[Task]]:
        """See `Setting`; `held_out` does not bound them."""
        return self.of("train"), self.of("test")

    def of(self, name: str) -> list[Task]:
        """The tasks of a split."""
        return asyncio.run(self._split(name))

    async def _split(self, name: str) -> list[Task]:
        async with host_pool(self.env, Registry.load().entry(self.env), RolloutConfig(env=(self.env,))) as pool:
            return await pool.tasks(split=name)


@dataclass(frozen=True, kw_only=True)
class Layouts(Setting):
    """Levels of BabyAI in layouts of their own: `learnt` to learn from and `held_out` to measure on, of each level; of
    the latter those are left that look at first like none of the former."""

    learnt: int

    def tasks(self) -> tuple[list[Task], list[Task]]:
        """See `Setting`; `held_out` counts tasks of each level."""
        one, other = (
            self._grids(range(20_000, 20_000 + self.learnt)),
            self._grids(range(90_000, 90_000 + self.held_out)),
        )
        return one, other

    def _grids(self, seeds: range) -> list[Task]:
        return [
            Task(
                id=f"babyai/{level}/{seed}",
                env="babyai",
                instruction=f"BabyAI {level}, grid {seed}",
                data={"level": level, "seed": seed},
                tags=(level,),
            )
            for seed in seeds
            for level in self.tags
        ]


_ENDLESS = {("number_sequence", 1705)}
"""Questions whose generator squares a number until it has millions of digits, and does not come back."""


def _example(name: str) -> str:
    """A world of the examples, `FILE:CLASS`."""
    return str(Path(__file__).parents[2] / "examples" / name)


def _inline(*, pool: int, tokens: int, turns: int) -> dict[str, Any]:
    """How a small world is played, inside the process that runs it."""
    return {
        "agent": "react",
        "pool": pool,
        "sampling": {"max_tokens": tokens},
        "budget": {"turns": turns},
        "hosts": {"inline": True},
    }


SETTINGS = {
    "babyai": Setting(
        env="babyai",
        play={"agent": "react", "pool": 24, "sampling": {"max_tokens": 24}, "budget": {"turns": 8}},
        held_out=40,
        tags=("GoToObjS4-v0", "GoToLocalS5N2-v0"),
    ),
    "babyai-steps": Layouts(
        env="babyai",
        play={"agent": "react", "pool": 24, "sampling": {"max_tokens": 24}, "budget": {"turns": 8}},
        learnt=60,
        held_out=300,
        tags=("GoToObjS4-v0", "GoToLocalS5N2-v0"),
    ),
    "depot-steps": Errands(
        env=_example("curateevo/depot.py:Depot"),
        play=_inline(pool=24, tokens=24, turns=6),
        held_out=200,
        tags=("feasible", "infeasible"),
    ),
    "babyai-rooms": Setting(
        env="babyai",
        play={"agent": "react", "pool": 24, "sampling": {"max_tokens": 24}, "budget": {"turns": 20}},
        held_out=40,
        tags=("GoToObjS6-v1", "GoToObj-v0", "GoToLocalS6N2-v0", "GoToRedBallNoDists-v0"),
    ),
    "babyai-acts": Setting(
        env="babyai",
        play={"agent": "react", "pool": 24, "sampling": {"max_tokens": 24}, "budget": {"turns": 14}},
        held_out=96,
        tags=("OpenRedDoor-v0", "PickupLoc-v0", "PickupDist-v0"),
        first=("GoToObjS4-v0", "GoToLocalS5N2-v0"),
    ),
    "houses": Split(
        env=_example("skills/houses.py:Houses"),
        play=_inline(pool=24, tokens=40, turns=5),
        held_out=0,
    ),
    "depot": Split(
        env=_example("curateevo/depot.py:Depot"),
        play=_inline(pool=24, tokens=24, turns=8),
        held_out=0,
    ),
    "boxes": Split(
        env=_example("coevolve/boxes.py:Boxes"),
        play=_inline(pool=32, tokens=32, turns=9),
        held_out=0,
    ),
    "halls": Split(
        env=_example("coevolve/halls.py:Halls"),
        play=_inline(pool=32, tokens=32, turns=8),
        held_out=0,
    ),
    "workshop": Split(
        env=_example("coevolve/workshop.py:Workshop"),
        play=_inline(pool=32, tokens=32, turns=8),
        held_out=0,
    ),
    "errands": Errands(
        env=_example("safety/errands.py:Errands"),
        play=_inline(pool=24, tokens=40, turns=6),
        held_out=360,
        tags=("plain", "noted"),
    ),
    **{
        f"reasoning-gym/{generator}": Setting(
            env="reasoning-gym",
            play={"agent": "tools", "pool": 32, "sampling": {"max_tokens": 16}},
            held_out=60,
            generator=generator,
        )
        for generator in ("number_sequence", "family_relationships", "gcd")
    },
}
