"""The writer: who draws goals for a place that nobody has walked to yet.

place ─▶ the environment's goals (port `Synthesis`) ─▶ Writer.write ─▶ candidates without a solution ─▶ validation
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from silva.envs.handle import EnvironmentHandle
from silva.loops.roles.candidate import Candidate
from silva.rollout.acted import Acted
from silva.tree import Task


class Writer(Protocol):
    """Implementations are `silva.loops.roles.Implementation`s of role `writer`. `spent`: all it cost so far, what
    came to nothing included."""

    name: str
    spent: Acted

    async def write(
        self, env: EnvironmentHandle, place: Task, count: int, seed: int = 0, known: Collection[str] = ()
    ) -> list[Candidate]:
        """At most so many candidates for a place.

        Args:
            env: an instance of the place's environment; reset it afterwards.
            place: a task of the place.
            count: the most candidates.
            seed: of what is drawn.
            known: words of goals that the place has tasks for already.

        Raises:
            UsageError: the environment offers no goals (port `Synthesis`).
            RoleError, ModelError: a model that is asked gave no usable answer, or cannot be had.
        """
        ...
