"""An abstracter that asks a model: of all that explored walks brought about, what is worth being a task, and how is it
done in the fewest steps?

The environment's checker still says what was brought about, and validation executes what the model writes: a model
chooses and shortens, it does not judge.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pydantic import Field

from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Achieved
from silva.lake import Lake
from silva.loops.roles.abstracter import actions_of
from silva.loops.roles.asking import Asker, Asks, RoleError, shared
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.embedded.hindsight import source_of
from silva.loops.roles.exploring import Walk
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import plus
from silva.rollout.branching.explore import content
from silva.tree import Message, Node

TEMPLATE = """\
An agent explored an environment. Here is what it was asked at first:
{task}

These are its actions, numbered:
{actions}

This is what its actions brought about, as the environment's own checker found, each with its number and the action \
after which it first held:
{goals}

What to prefer:
{focus}

Choose at most {count} of these results that would make the most useful tasks to practise: results that somebody could \
really want, that need several steps, and that differ from one another. For each, give the numbers of the actions that \
are needed to bring it about from the beginning, in order, without detours.

Answer with a JSON list: [{"goal": 0, "actions": [0, 3, 4], "why": "a few words"}]. An empty list means that none is \
worth it."""


class Chosen(msgspec.Struct):
    """One result that a model thinks worth being a task."""

    goal: int
    actions: list[int] = []
    why: str = ""


class EndpointAbstracterOptions(Asks):
    """`each`: tasks of one walk at most; `whole`: also goals that held before the exploration's own first turn."""

    temperature: float | None = Field(default=0.0, ge=0)
    each: int = Field(default=3, ge=1, le=20)
    whole: bool = False


class EndpointAbstracter(Implementation):
    """A model chooses among what was brought about, and says how it is done in the fewest steps."""

    role, name, summary = "abstracter", "endpoint", "a model chooses among what walks brought about, and shortens"
    Options = EndpointAbstracterOptions

    async def abstract(self, env: EnvironmentHandle, lake: Lake, walks: Sequence[Walk]) -> list[Candidate]:
        found: list[Candidate] = []
        answered, fault = 0, None
        async with Asker("abstracter", self.name, self.options) as asker:
            try:
                for walk, nodes in zip(walks, lake.walks(each.trajectory for each in walks), strict=True):
                    try:
                        made = await self._of(env, walk, nodes, asker)
                    except RoleError as error:  # one walk is lost, and was paid for; the others are asked about
                        fault = error
                        continue
                    answered += made is not None
                    found += made or ()
            finally:
                self.spent = plus(self.spent, asker.spent)
        if fault is not None and not answered:
            raise fault
        return found

    async def _of(
        self, env: EnvironmentHandle, walk: Walk, walked: Sequence[Node], asker: Asker
    ) -> list[Candidate] | None:
        """What a model makes of a walk; None where there is nothing to ask about."""
        said: EndpointAbstracterOptions = self.options
        actions, nodes = actions_of(walked)
        since = 0 if said.whole else walk.before
        reached = [each for each in await env.achieved(walk.task, actions) if each.turn > since] if actions else []
        if not reached:
            return None
        answer = await asker.ask(TEMPLATE, self._fields(walk, actions, reached), list[Chosen], count=said.each)
        good = [each for each in answer.value if 0 <= each.goal < len(reached)][: said.each]
        return [
            Candidate(
                place=walk.task,
                goal=reached[each.goal].goal,
                solution=_solution(each, reached[each.goal], actions),
                source=source_of(walk, nodes[reached[each.goal].turn - 1]),
                acted=(share,),
                notes={"why": each.why[:500]},
            )
            # One answer chose them all, so each bears its share of what it cost.
            for each, share in zip(good, shared(answer.acted, len(good)), strict=True)
        ]

    def _fields(self, walk: Walk, actions: Sequence[Message], reached: Sequence[Achieved]) -> dict[str, str]:
        focus = walk.context.focus
        return {
            "task": walk.task.instruction,
            "actions": "\n".join(f"{number}. {content(each)[:300]}" for number, each in enumerate(actions)),
            "goals": "\n".join(
                f"{number}. {each.goal.words[:300]} (action {each.turn - 1})" for number, each in enumerate(reached)
            ),
            "focus": focus[:1000] or "(nothing in particular)",
        }


def _solution(chosen: Chosen, achieved: Achieved, actions: Sequence[Message]) -> tuple[Message, ...]:
    """The actions a model named, as far as they are some; the loop-free ones where it named none."""
    numbers = [each for each in chosen.actions if 0 <= each < len(actions)] or list(achieved.kept)
    return tuple(actions[number] for number in numbers)
