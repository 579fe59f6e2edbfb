"""Copies of an episode's environment, in which things are tried out while the episode itself stands still.

    live ─▶ Ground: its state kept, else the actions so far ─▶ another instance ─▶ brought there ─▶ step ─▶ answer

Every copy is an instance of its own, leased for as long as something is tried in it, and brought to the state before
each use. So no candidate sees what another did, and the episode's own environment is never touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from silva.envs import EnvError
from silva.envs.state import REPLAY
from silva.envs.wire import Captured
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.live import Live
from silva.rollout.replay import replay
from silva.tree import Node, Task

_T = TypeVar("_T")


class Unreached(Exception):
    """A copy did not get to the state, because the environment does not repeat itself; the message says where."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The state in which candidates are tried. `captured`: as it was kept, None where the `walk`'s actions are taken
    again; `why`: why it could not be kept, where that was tried."""

    task: Task
    seed: int
    walk: tuple[Node, ...]
    captured: Captured | None = None
    why: str = ""

    @property
    def way(self) -> str:
        """How copies get there: `exact`, `files+replay`, or `replay`."""
        return REPLAY if self.captured is None else self.captured.fidelity

    @property
    def replayed(self) -> int:
        """How many actions each copy takes again on the way."""
        return 0 if self.captured is not None else sum(takes_turn(node) for node in self.walk)

    @classmethod
    async def of(cls, live: Live) -> Ground:
        """Where a live episode stands.

        Raises:
            EnvError: the environment or its host failed.
        """
        captured, why = None, ""
        if live.env.capabilities.snapshot not in ("none", "replay"):
            try:
                captured = await live.env.snapshot()
            except EnvError as error:
                if error.kind != "env.snapshot":
                    raise
                why = str(error)
        slot = live.slot
        return cls(task=slot.task, seed=slot.seed, walk=tuple(live.path.walk), captured=captured, why=why)

    async def bring(self, env: Any) -> None:
        """Bring a leased instance to the state.

        Raises:
            EnvError: it failed.
            Unreached: it does not repeat itself.
        """
        if self.captured is not None:
            await env.restore(self.captured)
            return
        again = await replay(env, self.task, self.seed, self.walk)
        if again.divergence is not None:
            raise Unreached(f"the environment does not repeat itself: {again.divergence}")


async def at_once(doing: Iterable[Awaitable[_T]]) -> list[_T]:
    """What comes of several things done at once, in their order. The first that raises ends the others."""
    tasks = [asyncio.ensure_future(each) for each in doing]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
