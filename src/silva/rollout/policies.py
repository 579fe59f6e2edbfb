"""The two built-in policies that bound every score: the environment's expert and its null policy.

They act on the live environment, not on a model: the expert knows the ground truth, the null policy does nothing
useful. Both take the same turns through the same engine as any agent, so their figures are comparable. With a
rendering, their turns carry the ids that a policy would have sampled to take them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from silva.rollout.agent import Turn, View
from silva.rollout.episode import Ended
from silva.tree import Boundary, Failure, Message

if TYPE_CHECKING:
    from silva.rollout.rendering import Rendering


class FormError(ValueError):
    """An action that cannot be written as an agent has its model write it; the message says why and what else to do."""


class ActsForItself(Protocol):
    """A live environment that can say what its expert and its null policy would do."""

    async def expert(self) -> Message:
        """The expert's next action."""
        ...

    async def null(self) -> Message:
        """The null policy's next action."""
        ...


class BuiltInPolicy:
    """The expert or the null policy of one live environment; `rendering` gives its turns their ids."""

    def __init__(self, name: Literal["expert", "null"], env: ActsForItself, rendering: Rendering | None = None) -> None:
        self.name = name
        self._env = env
        self._rendering = rendering

    async def act(self, view: View) -> Turn:
        """The environment's own next action.

        Raises:
            Ended: the action cannot be written as the policy's agent has it written.
        """
        message = await (self._env.expert() if self.name == "expert" else self._env.null())
        if self._rendering is None:
            return Turn(message=message, finish_reason="stop", model=self.name)
        try:
            return self._rendering.turn(view, message, self.name)
        except FormError as fault:
            raise Ended(
                Failure(boundary=Boundary.AGENT, code="agent.form", message=f"the {self.name}'s turn: {fault}")
            ) from fault
