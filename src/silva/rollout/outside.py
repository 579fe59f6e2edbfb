"""An agent that is not Silva's: whoever is at the other end is shown what there is to see, and says what to do.

    engine ─ act(view) ─▶ Shown ─▶ the other end ─ take(action) ─▶ the engine's next turn ─▶ Shown | Over

Its episodes are a rollout's like any other: turns are on disk before they count, stages see them, the environment
judges. `silva.rollout.outside_mcp` is such an end for clients of MCP.
"""

from __future__ import annotations

import asyncio
from typing import Any

from silva.errors import UsageError
from silva.rollout.agent import Agent, Turn, View
from silva.rollout.policies import BuiltInPolicy
from silva.tree import Message, Record, Tool, Trajectory


class Shown(Record, frozen=True, kw_only=True):
    """What the other end is shown: the conversation, how much of it is new, and the tools in force."""

    messages: tuple[Message, ...]
    new: tuple[Message, ...]
    tools: tuple[Tool, ...]


class Over(Record, frozen=True, kw_only=True):
    """An episode's end; without a trajectory that of the run, and why where it was not the last task's end."""

    trajectory: Trajectory | None = None
    why: str = ""


class Outside:
    """The agent, and the place where both ends meet. One episode at a time, one action at a time."""

    name = "outside"

    def __init__(self) -> None:
        self._shown: asyncio.Queue[Shown | Over] = asyncio.Queue()
        self._actions: asyncio.Queue[Message] = asyncio.Queue()
        self._now: Shown | Over | None = None

    def agent_for(self, env: Any, role: str = "") -> Agent:
        """This, and the environment's experts for other roles."""
        return BuiltInPolicy("expert", env) if role else self

    async def act(self, view: View) -> Turn:
        """Show what there is, and wait for an action."""
        last = max((at for at, each in enumerate(view.messages) if each.role == "assistant"), default=-1)
        self._shown.put_nowait(Shown(messages=view.messages, new=view.messages[last + 1 :], tools=view.tools))
        return Turn(message=await self._actions.get())

    def ended(self, trajectory: Trajectory) -> None:
        """An episode is over."""
        self._shown.put_nowait(Over(trajectory=trajectory))

    def over(self, why: str = "") -> None:
        """No episode follows."""
        self._shown.put_nowait(Over(why=why))

    async def now(self) -> Shown | Over:
        """What is there to see."""
        if self._now is None:
            self._now = await self._shown.get()
        return self._now

    async def take(self, action: Message) -> Shown | Over:
        """Take an action; what comes of it. Behind an episode's end, `now` is the next one's beginning.

        Raises:
            UsageError: no episode is under way.
        """
        if not isinstance(await self.now(), Shown):
            raise UsageError("no task is left to be played")
        self._actions.put_nowait(action)
        found = await self._shown.get()
        self._now = found if isinstance(found, Shown) or found.trajectory is None else None
        return found
