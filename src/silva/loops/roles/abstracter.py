"""The abstracter: who says what explored walks brought about, and which of it is worth being a task.

    walks ─▶ Abstracter.abstract ─▶ candidates (goal, solution, where from) ─▶ validation

The environment's own checker says what was brought about (port `Hindsight`); an abstracter chooses, and may shorten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from silva.envs.handle import EnvironmentHandle
from silva.lake import Lake
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.exploring import Walk
from silva.rollout.acted import Acted
from silva.rollout.guided_nodes import not_taken, takes_turn
from silva.tree import Message, Node


class Abstracter(Protocol):
    """Implementations are `silva.loops.roles.Implementation`s of role `abstracter`. `spent`: all it cost so far, what
    came to nothing included."""

    name: str
    spent: Acted

    async def abstract(self, env: EnvironmentHandle, lake: Lake, walks: Sequence[Walk]) -> list[Candidate]:
        """What the walks brought about that is worth being a task, in the order of the walks.

        Args:
            env: an instance of the walks' environment; reset it afterwards.
            lake: where the walks are.
            walks: of one exploration.

        Raises:
            UsageError: the environment cannot look back (port `Hindsight`).
            RoleError, ModelError: a model that is asked gave no usable answer, or cannot be had.
        """
        ...


def actions_of(nodes: Sequence[Node]) -> tuple[list[Message], list[str]]:
    """The actions of a walk that its environment was given, from the root on, and the ids of their nodes."""
    left = not_taken(nodes)
    taken = [node for node in nodes if takes_turn(node) and node.id not in left]
    return [node.message for node in taken], [node.id for node in taken]
