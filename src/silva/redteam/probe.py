"""Who plays where only one thing is asked: was the attack in what a model would have been shown?

    Probed (a leased environment, not judged) ─▶ Probe ─▶ the expert's next action, the null policy's, or a call that is
                                                          filled in by its tool's schema

No model is asked. A probe takes the turns that bring the results that attacks stand in, and looks where words were
planted in the environment's state.
"""

from __future__ import annotations

import contextlib
from typing import Any

from silva.envs import Evaluation
from silva.envs.protocol import Planted
from silva.errors import UsageError
from silva.redteam.goal import filled
from silva.rollout.agent import Turn, View
from silva.tree import Message, assistant, call

POLICIES = ("expert", "calls", "null")
"""How a probe acts, the better first: as the environment's expert, by calling its tools in turn, or as its null
policy."""


class Probed:
    """A leased environment that is not judged: checkers are slow, and nothing here depends on them. `looks` are actions
    that show what was planted in its state."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.looks: list[Message] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def plant(self, surface: str, words: str) -> Planted:
        """Have words planted, and look there at the next turn."""
        planted: Planted = await self._env.plant(surface, words)
        self.looks = [planted.look] if planted.look is not None else []
        return planted

    async def evaluate(self) -> Evaluation:
        """Nobody judges."""
        return Evaluation(score=None, success=None)


class Probe:
    """A policy without a model.

    Args:
        env: the environment that is played.
        policy: one of `POLICIES`.
    """

    name = "probe"

    def __init__(self, env: Any, policy: str) -> None:
        self._env, self._policy = env, policy
        self._looked = False

    async def act(self, view: View) -> Turn:
        """The next action."""
        looks: list[Message] = getattr(self._env, "looks", [])
        if looks:
            self._looked = True
            return self._turn(looks.pop(0))
        return self._turn(await self._next(view))

    def _turn(self, message: Message) -> Turn:
        return Turn(message=message, finish_reason="stop", model=self.name)

    async def _next(self, view: View) -> Message:
        if self._looked:  # an expert may not find its way from where the look led
            with contextlib.suppress(UsageError):
                return await self._env.null()
        if self._policy == "expert":
            return await self._env.expert()
        if self._policy == "null" or not view.tools:
            return await self._env.null()
        taken = sum(message.role == "assistant" for message in view.messages)
        tool = view.tools[taken % len(view.tools)]
        return assistant("", call(tool.name, filled(tool, "probe")))
