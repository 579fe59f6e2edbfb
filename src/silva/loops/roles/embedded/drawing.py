"""A writer that draws from the environment's own goals, the patterns in turn, so that rare ones are not drowned."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection
from itertools import zip_longest
from random import Random

from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Goal
from silva.loops.roles.asking import shared
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted, plus
from silva.rollout.section import Section
from silva.tree import Task


class SynthesisOptions(Section):
    """`patterns`: kinds of goals to draw (none: all)."""

    patterns: tuple[str, ...] = ()


class SynthesisWriter(Implementation):
    """Goals drawn from the environment's port."""

    role, name, summary = "writer", "synthesis", "goals drawn from those the environment offers, its patterns in turn"
    Options = SynthesisOptions

    async def write(
        self, env: EnvironmentHandle, place: Task, count: int, seed: int = 0, known: Collection[str] = ()
    ) -> list[Candidate]:
        began = time.monotonic()
        said: SynthesisOptions = self.options
        offered = [goal for goal in await env.goals(place) if not said.patterns or goal.pattern in said.patterns]
        drawn = in_turn([goal for goal in offered if goal.words not in set(known)], Random(f"{seed}/{place.id}"))
        deed = Acted(role="writer", by=self.name, seconds=time.monotonic() - began)
        self.spent, drawn = plus(self.spent, deed), drawn[:count]
        shares = shared(deed, len(drawn))
        return [Candidate(place=place, goal=goal, acted=(each,)) for goal, each in zip(drawn, shares, strict=True)]


def in_turn(goals: list[Goal], chance: Random) -> list[Goal]:
    """The goals in a drawn order in which their patterns take turns."""
    of_pattern: defaultdict[str, list[Goal]] = defaultdict(list)
    for goal in goals:
        of_pattern[goal.pattern].append(goal)
    groups = [of_pattern[name] for name in sorted(of_pattern)]
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    return [goal for row in zip_longest(*groups) for goal in row if goal is not None]
