"""Somebody who watches episodes of this process turn by turn, and may say something before the next one.

A person watches from elsewhere (a console, a terminal) and is a turn behind at times; a scripted person watches here,
so that what it says is the same in every run. One who knows the way is told, before each turn, what the environment's
expert would do: the environment is asked, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from silva.rollout.guided_nodes import ASKED
from silva.rollout.live import Live
from silva.rollout.stages.stage import Stage
from silva.tree import Message, Node


@runtime_checkable
class Watching(Protocol):
    """Guidance that is shown each episode before it listens."""

    def watch(self, trajectory_id: str, task_id: str, walk: Sequence[Node]) -> None:
        """See an episode's walk so far, root first; called before each turn and after the last. What it says is heard
        at once.

        Raises:
            StoreError: what it says cannot be kept.
        """
        ...


@runtime_checkable
class Advised(Watching, Protocol):
    """Somebody who watches and, where `asks` says so, knows what the environment's expert would do."""

    @property
    def asks(self) -> bool: ...

    def advise(self, trajectory_id: str, turn: int, action: Message) -> None:
        """Be told, before the walk is shown, what the expert would do at its next turn.

        Args:
            trajectory_id: the episode's.
            turn: that turn's number, from 1.
            action: the expert's.
        """
        ...

    def drawn(self, trajectory_id: str, turn: int, action: Message) -> None:
        """Be told which action of the agent's waits for a decision.

        Args:
            trajectory_id: the episode's.
            turn: its number, from 1.
            action: the agent's.
        """
        ...


class Watchers(Stage):
    """Shows an episode to one who watches it."""

    name = "watching"

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._advised = 0

    async def before_turn(self, live: Live) -> None:
        """Show the walk before the agent acts.

        Raises:
            UsageError: the expert is asked for, and the environment has none.
        """
        await self._advise(live, live.path.turns + 1)
        self._watching.watch(live.id, live.slot.task.id, live.path.walk)

    async def settle(self, live: Live, action: Node) -> Node:
        """Show the action that waits; one that an episode that goes on finds waiting has the expert asked first."""
        if ASKED in action.attributes and isinstance(self._watching, Advised) and self._watching.asks:
            await self._advise(live, live.path.turns)
            self._watching.drawn(live.id, live.path.turns, action.message)
        return action

    async def at_end(self, live: Live) -> None:
        """Show the whole walk."""
        self._watching.watch(live.id, live.slot.task.id, live.path.walk)

    async def _advise(self, live: Live, turn: int) -> None:
        if turn != self._advised and isinstance(self._watching, Advised) and self._watching.asks:
            self._advised = turn
            self._watching.advise(live.id, turn, await live.env.expert())
