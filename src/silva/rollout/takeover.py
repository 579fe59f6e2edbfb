"""A person's action in the policy's place, with the ids the policy would have sampled to take it.

    agent ─▶ TakenOver ─┬▶ act, summarise ─▶ as the agent itself
                        └▶ write: a person's action ─▶ Rendering ─▶ a turn with prompt and reply as ids

So what people do can be imitated as an expert's turns can (`silva.train.stretch.Reading.takeovers`): the node stays the
person's, and holds ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from silva.rollout.agent import Agent, FormError, ToolAgent, Turn, View
from silva.rollout.guided_nodes import UNWRITTEN
from silva.rollout.react import ReActAgent
from silva.tree import Message

if TYPE_CHECKING:
    from silva.rollout.rendering import Rendering


class TakenOver:
    """An agent whose turns people may take.

    Args:
        agent: the agent.
        renderings: makes what writes a turn as the agent's policy would have sampled it.
    """

    def __init__(self, agent: ReActAgent | ToolAgent, renderings: Callable[[], Rendering]) -> None:
        self._agent = agent
        self._renderings = renderings
        self.name, self.model = agent.name, agent.model

    async def act(self, view: View) -> Turn:
        """The agent's own turn."""
        return await self._agent.act(view)

    async def summarise(self, view: View, asked: str) -> Turn:
        """The agent's own summary."""
        return await self._agent.summarise(view, asked)

    def write(self, view: View, action: Message) -> Turn:
        """A person's action after `view`, as the agent would read it from those ids; without any, and with the reason,
        where the agent's form does not hold it."""
        try:
            return self._renderings().turn(view, action, "")
        except FormError as fault:
            return Turn(message=action, attributes={UNWRITTEN: str(fault)})


def written(agent: Agent, view: View, action: Message) -> Turn:
    """The turn that a person's action is, with ids where the run names a renderer for that."""
    return agent.write(view, action) if isinstance(agent, TakenOver) else Turn(message=action)
