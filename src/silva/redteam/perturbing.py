"""The stage that disturbs: tools fail, answers are late, cut, stale or noisy, at a share of the turns.

Which turns it strikes is drawn from the run's seed, the task, the place and the turn, so attempts with and without it
can be compared, and a resumed episode goes on as it would have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

import msgspec

from silva.envs import Observation
from silva.redteam.attack import perturbation
from silva.redteam.perturbation import Moment, Perturbation
from silva.redteam.renaming import renamed, restored
from silva.rollout.agent import Turn
from silva.rollout.guided_nodes import REFUSED
from silva.rollout.stages import Live, Refusal, Stage
from silva.tree import Author, Node, digest

NAME = "perturb"
"""What the stage is called."""

MARK = "perturbed"
"""The attribute of an observation that was disturbed; it holds the perturbation's name."""


class Perturbing(Stage):
    """Disturbances of one episode.

    Args:
        kinds: names of perturbations (`silva redteam list`); one of them strikes at a time.
        share: of the turns that are disturbed, in (0, 1].

    Raises:
        UsageError: a perturbation is not known.
        ValueError: the share cannot be, or none is named.
    """

    name: ClassVar[str] = NAME
    author: ClassVar[Author] = Author.ENVIRONMENT

    def __init__(self, kinds: Sequence[str] | str, share: float = 0.3) -> None:
        names = [kinds] if isinstance(kinds, str) else list(kinds)
        if not names:
            raise ValueError("kinds: name at least one perturbation")
        if not 0 < share <= 1:
            raise ValueError(f"share {share}: a share of the turns, above 0 and at most 1")
        self._kinds, self._share = [perturbation(name) for name in names], share
        self._renames = any(kind.renames for kind in self._kinds)
        self._live: Live | None = None

    @property
    def calls(self) -> bool:
        """See `Stage`."""
        return True

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """See `Stage`."""
        self._live = live
        kind, draw = self._striking(live, live.path.turns + 1)
        why = ""
        if kind is not None and kind.refuse is not None and turn.message.tool_calls:
            why = kind.refuse(Moment(draw, action=turn.message))
        if not why and self._renames and turn.message.tool_calls:
            taken = restored(turn.message, live.path.tools)
            if not isinstance(taken, str):
                return msgspec.structs.replace(turn, message=taken)
            why = taken
        return Refusal(self.name, why, Author.ENVIRONMENT) if why else turn

    async def on_observation(self, live: Live, observation: Observation) -> Observation:
        """See `Stage`."""
        self._live = live
        if self._renames and observation.tools:
            observation = renamed(observation)
            attributes = {**observation.attributes, MARK: "renamed"}
            observation = msgspec.structs.replace(observation, attributes=attributes)
        kind, draw = self._striking(live, live.path.turns)
        if kind is None or kind.show is None or observation.done or not live.path.turns:
            return observation
        earlier = next((node.message.text for node in reversed(live.path.walk) if node.message.role == "tool"), "")
        changed = kind.show(observation, Moment(draw, earlier))
        if changed is None:
            return observation
        if kind.seconds:
            await asyncio.sleep(kind.seconds)
        return msgspec.structs.replace(changed, attributes={**changed.attributes, MARK: kind.name})

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        """See `Stage`."""
        self._live = live

    def attributes(self) -> dict[str, Any]:
        """See `Stage`."""
        walk = self._live.path.walk if self._live is not None else []
        struck = sum(MARK in node.attributes or node.attributes.get(REFUSED) == self.name for node in walk)
        return {self.name: {"kinds": [kind.name for kind in self._kinds], "share": self._share, "struck": struck}}

    def _striking(self, live: Live, turn: int) -> tuple[Perturbation | None, Random]:
        """What strikes a turn, None where nothing does; and the draw of that turn."""
        draw = Random(digest(str(live.config.seed), live.slot.task.id, str(live.slot.index), f"perturb {turn}"))
        return (draw.choice(self._kinds) if draw.random() < self._share else None), draw
