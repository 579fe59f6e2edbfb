"""The built-in policies. Two bound every score: the environment's expert and its null policy.

They act on the live environment, not on a model: the expert knows the ground truth, the null policy does nothing
useful. Both take the same turns through the same engine as any agent, so their figures are comparable. With a
rendering, their turns carry the ids that a policy would have sampled to take them.

An expert may slip: at a share of its turns another action of the environment is taken in its place, and the expert has
to find back. So there are trajectories with bad actions in them whose places are known (noise injection: DART: Noise
Injection for Robust Imitation Learning, 2017, arXiv 1703.09327); such a turn's node says `slip` in its attributes.

The third, `solution`, carries out what a synthesised task was validated by (`silva.loops.roles.born`), and does nothing
behind it: so tasks that grew become walks, and nobody who knows the way is asked.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from silva.rollout.agent import FormError, Turn, View
from silva.rollout.ending import Ended
from silva.tree import Boundary, Failure, Message, Task, Tool, assistant, call

if TYPE_CHECKING:
    from silva.rollout.rendering import Rendering


class ActsForItself(Protocol):
    """A live environment that can say what its expert and its null policy would do; `begun` is
    the task that was begun last."""

    begun: Task | None

    async def expert(self) -> Message:
        """The expert's next action."""
        ...

    async def null(self) -> Message:
        """The null policy's next action."""
        ...


BuiltIn: TypeAlias = Literal["expert", "null", "solution"]

SLIP = "slip"
"""The attribute of a node whose action was put in the place of the expert's."""


class BuiltInPolicy:
    """A built-in policy of one live environment.

    Args:
        name: which.
        env: the environment.
        rendering: gives its turns their ids.
        slips: the share of the expert's turns at which another action is taken, drawn from the turn's seed.
    """

    def __init__(
        self,
        name: BuiltIn,
        env: ActsForItself,
        rendering: Rendering | None = None,
        slips: float = 0.0,
    ) -> None:
        self.name = name
        self._env = env
        self._rendering = rendering
        self._slips = slips
        self._known: list[Message] | None = None

    async def act(self, view: View) -> Turn:
        """The environment's own next action, or a slip.

        Raises:
            Ended: the action cannot be written as the policy's agent has it written, or there is none to slip into.
        """
        message = await self._next()
        chance = Random(view.sampling.seed)
        slipped = self._slips > 0 and chance.random() < self._slips
        if slipped:
            message = _another(view.tools, message, chance)
        turn = self._turn(view, message)
        return msgspec.structs.replace(turn, attributes={**turn.attributes, SLIP: True}) if slipped else turn

    async def _next(self) -> Message:
        if self.name == "expert":
            return await self._env.expert()
        if self.name == "solution" and self._known is None:
            born = (self._env.begun.born if self._env.begun is not None else None) or {}
            self._known = msgspec.convert(born.get("solution", []), list[Message])
        return self._known.pop(0) if self._known else await self._env.null()

    def _turn(self, view: View, message: Message) -> Turn:
        if self._rendering is None:
            return Turn(message=message, finish_reason="stop", model=self.name)
        try:
            return self._rendering.turn(view, message, self.name)
        except FormError as fault:
            raise Ended(
                Failure(boundary=Boundary.AGENT, code="agent.form", message=f"the {self.name}'s turn: {fault}")
            ) from fault


def _another(tools: tuple[Tool, ...], action: Message, chance: Random) -> Message:
    """A legal action that is not this one."""
    taken = [(each.name, each.parsed()) for each in action.tool_calls]
    others = [each for each in _actions(tools) if taken != [each]]
    if not others:
        raise Ended(
            Failure(
                boundary=Boundary.AGENT,
                code="agent.slip",
                message="the expert cannot slip here: no tool whose arguments are enumerated; leave slips out",
            )
        )
    return assistant("", call(*chance.choice(others)))


def _actions(tools: tuple[Tool, ...]) -> list[tuple[str, dict[str, object]]]:
    """Every call of the tools whose arguments are all enumerated."""
    found: list[tuple[str, dict[str, object]]] = []
    for tool in tools:
        properties = tool.parameters.get("properties", {})
        values = [each.get("enum") for each in properties.values()]
        if all(values):
            found += [(tool.name, dict(zip(properties, chosen, strict=True))) for chosen in itertools.product(*values)]
    return found
