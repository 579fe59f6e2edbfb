"""A writer that asks a model which of the goals that a place offers are worth being tasks."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import msgspec
from pydantic import Field

from silva.envs.handle import EnvironmentHandle
from silva.loops.roles.asking import Asker, Asks, shared
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.embedded.drawing import in_turn
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import plus
from silva.tree import Task

TEMPLATE = """\
Tasks for an agent are to be made in this place:
{place}

These are things that could be brought about there, numbered:
{goals}

There are tasks for these already:
{known}

Choose {count} of the numbered ones that would make good practice: things somebody could really want, that need \
several steps, that can be done in this place, and that differ from one another and from those that are there already.

Answer with a JSON list: [{"goal": 0, "why": "a few words"}]."""


class Picked(msgspec.Struct):
    """One goal that a model picked."""

    goal: int
    why: str = ""


class EndpointWriterOptions(Asks):
    """`shown`: goals that the model chooses from, drawn, their patterns in turn."""

    temperature: float | None = Field(default=0.7, ge=0)
    shown: int = Field(default=60, ge=2, le=500)


class EndpointWriter(Implementation):
    """A model picks from the environment's goals."""

    role, name, summary = "writer", "endpoint", "a model picks from the goals that the environment offers"
    Options = EndpointWriterOptions

    async def write(
        self, env: EnvironmentHandle, place: Task, count: int, seed: int = 0, known: Collection[str] = ()
    ) -> list[Candidate]:
        said: EndpointWriterOptions = self.options
        offered = [goal for goal in await env.goals(place) if goal.words not in set(known)]
        drawn = in_turn(offered, Random(f"{seed}/{place.id}"))[: said.shown]
        if not drawn:
            return []
        opening = await env.reset(place)
        fields = {
            "place": "\n".join(each.text for each in opening.messages if each.role != "system"),
            "goals": "\n".join(f"{number}. {goal.words[:300]}" for number, goal in enumerate(drawn)),
            "known": "\n".join(sorted(known)[:100]) or "(none)",
        }
        async with Asker("writer", self.name, said) as asker:
            try:
                answer = await asker.ask(TEMPLATE, fields, list[Picked], count=count)
            finally:
                self.spent = plus(self.spent, asker.spent)
        numbers = dict.fromkeys(each.goal for each in answer.value if 0 <= each.goal < len(drawn))
        good, whys = list(numbers)[:count], {each.goal: each.why for each in answer.value}
        return [
            Candidate(place=place, goal=drawn[number], acted=(share,), notes={"why": whys[number][:500]})
            for number, share in zip(good, shared(answer.acted, len(good)), strict=True)
        ]
