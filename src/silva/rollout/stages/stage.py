"""A stage: what may happen around a turn, as a class that overrides the moments it cares for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from silva.envs import Evaluation, Observation
from silva.rollout.agent import Turn
from silva.rollout.guided_nodes import ADDED
from silva.rollout.live import Live, Refusal
from silva.tree import Author, Message, Node


class Stage:
    """One of an episode's stages; see `silva.rollout.stages` for the moments and their order.

    An instance belongs to one episode, so it may keep state. Every moment may await, raise `Stopped` (the episode ends
    here and is judged as it stands) or `Ended` (it ends with a failure), and `add` messages to the walk.
    """

    name: ClassVar[str] = ""
    """What it is called in configurations, on nodes it wrote and in errors."""
    author: ClassVar[Author] = Author.ENVIRONMENT
    """Who wrote what it rewrites or adds in an observation."""

    @property
    def programs(self) -> bool:
        """Whether it goes around an agent that is a program: it needs `on_observation` of the opening and
        `on_evaluation` alone, and writes nothing to the walk."""
        return False

    @property
    def calls(self) -> bool:
        """Whether it goes around the calls of tools that a program is served: it asks no agent, keeps no state of the
        environment, and adds nothing to the walk but what it makes of an observation."""
        return self.programs

    async def before_turn(self, live: Live) -> None:
        """The agent is about to be asked for a new turn."""

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """The agent's new turn, not yet on the path: return it, another in its place, or a `Refusal`."""
        return turn

    async def settle(self, live: Live, action: Node) -> Node | None:
        """The action is the last node of the path and about to be taken: return it, the node that was put in its place
        (`live.path.act_for` a turn of `live.written`, behind `set_aside`), or None where it was answered and is not
        taken (`live.path.answer`).
        A resumed episode asks again about an action that was left unsettled."""
        return action

    async def on_observation(self, live: Live, observation: Observation) -> Observation:
        """What the environment said, not yet on the path: return it, or as the agent is to see it. A message may be
        rewritten at its place or added behind; none is taken away. The opening is one, too (`live.path.turns` is 0)."""
        return observation

    async def after_turn(self, live: Live, observation: Observation) -> None:
        """The answer is on the path and not yet sent, so its node can still be marked."""

    async def at_end(self, live: Live) -> None:
        """The last turn is over; the environment has not been judged."""

    async def on_evaluation(self, live: Live, evaluation: Evaluation) -> Evaluation:
        """The environment's verdict: return it, or with what else was found."""
        return evaluation

    def add(self, live: Live, message: Message) -> Node:
        """Say something in this stage's name, where the walk now ends; it travels with the next turn."""
        return live.path.interject(message, {ADDED: self.name}, self.author)

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        """Stored nodes were taken up again: what this stage did there is done, and is not asked for again."""

    def attributes(self) -> dict[str, Any]:
        """What the trajectory's record says of it."""
        return {}
