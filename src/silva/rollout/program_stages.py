"""The stages of an episode that is a program's: they change what it is given at its start, and read what it did.

    reset ─ on_observation ─▶ the prompt ─▶ program … its calls become nodes … ─▶ walk ─ on_evaluation ─▶ scores, record

Between its start and its end a program cannot be told anything, so only stages that say `programs` go around it. What
they noted of the opening stands on the first words of the walk while they read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from silva.envs import Evaluation
from silva.envs.protocol import Observation
from silva.errors import UsageError
from silva.rollout.config import RolloutConfig
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.live import Live
from silva.rollout.path import Path
from silva.rollout.slots import Slot
from silva.rollout.stages.order import plugged_in
from silva.tree import AnyRecord, Node


def fit_for_programs(config: RolloutConfig) -> None:
    """Refuse stages that do not go around a program.

    Raises:
        UsageError: there is one.
    """
    for each in plugged_in(config):
        if config.command and not each.programs:
            raise UsageError(
                f"stages: {each.name} as it is set acts at turns, and a program acts where no turn can be told; "
                "programs take attacks in their opening or in files (surfaces memory, user_turn, agent_message, file)"
            )


class AroundProgram:
    """The stages of one program's episode.

    Args:
        config: the run's.
        slot: the attempt.
        env: the leased environment.
    """

    def __init__(self, config: RolloutConfig, slot: Slot, env: Any) -> None:
        self._stages = plugged_in(config)
        self._live = Live(config, slot, Path(_Nowhere(), config.run, slot.tree_id, slot.name, set()))
        self._live.env = env
        self._noted: dict[str, Any] = {}

    async def opened(self, observation: Observation) -> Observation:
        """What the program is given."""
        before = set(observation.attributes)
        for each in self._stages:
            observation = await each.on_observation(self._live, observation)
        self._noted = {name: value for name, value in observation.attributes.items() if name not in before}
        return observation

    async def judged(self, evaluation: Evaluation, walk: Sequence[Node]) -> Evaluation:
        """The environment's verdict, with what the stages found in the program's walk."""
        nodes = list(walk)
        if nodes and self._noted:
            place = next((at for at, node in enumerate(nodes) if takes_turn(node)), len(nodes)) - 1
            place = max(0, place)
            noted = {**nodes[place].attributes, **self._noted}
            nodes[place] = msgspec.structs.replace(nodes[place], attributes=noted)
        path = self._live.path
        path.walk, path.turns = nodes, sum(map(takes_turn, nodes))
        for each in self._stages:
            evaluation = await each.on_evaluation(self._live, evaluation)
        return evaluation

    def attributes(self) -> dict[str, Any]:
        """What the record says of the stages."""
        told: dict[str, Any] = {}
        for each in self._stages:
            told |= each.attributes()
        return told


class _Nowhere:
    """A program's turns are written by the gateway."""

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        raise RuntimeError("a stage added words to a program's walk")
