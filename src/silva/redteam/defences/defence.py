"""A defence: rewrites what is shown, refuses actions, or both."""

from __future__ import annotations

from dataclasses import dataclass

from silva.envs import Observation
from silva.tree import Message, Tool


@dataclass(frozen=True, slots=True)
class Guarded:
    """What a defence may go by: `task`, the words of the system and the user at the beginning, which are trusted; the
    `tools` there are; a `token` of this attempt that nobody else knows; whether it is the `opening`."""

    task: str
    tools: tuple[Tool, ...]
    token: str
    opening: bool = False


class Defence:
    """One defence. It keeps no state between turns."""

    name: str = ""
    summary: str = ""
    standards: tuple[str, ...] = ()

    async def show(self, observation: Observation, guarded: Guarded) -> Observation:
        """The observation as the model is shown it; messages may be rewritten at their place, none taken away."""
        return observation

    async def refuse(self, action: Message, guarded: Guarded) -> str:
        """Why an action is not taken; "" where it may be."""
        return ""
