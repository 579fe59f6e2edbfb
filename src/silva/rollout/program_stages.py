"""The stages of an episode that is a program's: they change what it is given, and read what it did.

    reset ─ on_observation ─▶ the prompt ─▶ program … its calls become nodes … ─▶ walk ─ on_evaluation ─▶ scores, record
                                              └ its calls of tools that it is served: turns of their own, stage by stage

Where it is served no tools a program cannot be told anything between its start and its end, so only stages that say
`programs` go around it; where it is, those that say `calls` do. What they noted of the opening stands on the first
words of the walk while they read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from silva.envs import Evaluation
from silva.envs.protocol import Observation
from silva.errors import UsageError
from silva.rollout.agent import Turn
from silva.rollout.config import RolloutConfig
from silva.rollout.guided_nodes import REFUSED, REFUSES, takes_turn
from silva.rollout.live import Live
from silva.rollout.mcp_server import needed
from silva.rollout.path import Path
from silva.rollout.program_client import client_of
from silva.rollout.served_tools import ServedTools, called_as
from silva.rollout.slots import Slot
from silva.rollout.stages.order import plugged_in
from silva.rollout.stages.pipeline import Pipeline
from silva.tree import AnyRecord, Node, assistant


def fit_for_programs(config: RolloutConfig, *, tools: bool) -> None:
    """Refuse stages that cannot be had, and what does not go with a program.

    Args:
        config: the run's.
        tools: whether its environments have tools, which a program is served.

    Raises:
        UsageError: a stage cannot be had or does not go around a program, or tools are added for a program that has no
            client of MCP.
        MissingError: tools are added, and the package mcp is not installed.
    """
    if config.command and config.tools:
        needed()
        client_of(config.command, config.program.client)
    for each in plugged_in(config):
        if config.command and not (each.programs or (tools and each.calls)):
            raise UsageError(
                f"stages: {each.name} as it is set acts at turns, and a program acts where no turn can be told; "
                "programs take attacks in their opening or in files (surfaces memory, user_turn, agent_message, file), "
                "and in tools that they are served (--tools)"
            )


class AroundProgram:
    """The stages of one program's episode.

    Args:
        config: the run's.
        slot: the attempt.
        env: the leased environment.
    """

    def __init__(self, config: RolloutConfig, slot: Slot, env: Any) -> None:
        self._plugged = plugged_in(config)
        self._stages = Pipeline(self._plugged)
        self._live = Live(config, slot, Path(_Nowhere(), config.run, slot.tree_id, slot.name, set()))
        self._live.env = env
        self._noted: dict[str, Any] = {}
        self.served: ServedTools | None = None

    async def opened(self, observation: Observation) -> Observation:
        """What the program is given; its tools, if there are any, are `served` from now on."""
        before = set(observation.attributes)
        shown = await self._stages.on_observation(self._live, observation)
        self._live.path.observe(observation, 0.0, shown)
        self._noted = {name: value for name, value in shown.observation.attributes.items() if name not in before}
        if shown.observation.tools:
            self.served = ServedTools(self._live.env, self._live, self._stages, observation)
        return shown.observation

    async def answered(self, words: str, observation: Observation) -> Observation:
        """What the program is given when it has ended, and its environment goes on."""
        self._live.path.act(Turn(message=assistant(words)), 0.0)
        shown = await self._stages.on_observation(self._live, observation)
        self._live.path.observe(observation, 0.0, shown)
        if self.served is not None:
            self.served.observation = observation
        return shown.observation

    async def judged(self, evaluation: Evaluation, walk: Sequence[Node]) -> Evaluation:
        """The environment's verdict, with what the stages found in the program's walk."""
        nodes = list(walk)
        if nodes and self._noted:
            place = next((at for at, node in enumerate(nodes) if takes_turn(node)), len(nodes)) - 1
            _note(nodes, max(0, place), self._noted)
        if self.served is not None:
            _as_served(nodes, self.served)
        path = self._live.path
        path.walk, path.turns = nodes, sum(map(takes_turn, nodes))
        return await self._stages.on_evaluation(self._live, evaluation)

    def attributes(self) -> dict[str, Any]:
        """What the record says of the stages, and of the tools that were served."""
        told = self._stages.attributes()
        if self.served is not None:
            told["served"] = {"asked": self.served.asked, "called": self.served.called}
        return told


def _as_served(nodes: list[Node], served: ServedTools) -> None:
    """Have a walk say what stages look for: tools by the names that they know, and which actions were refused."""
    places = {node.id: place for place, node in enumerate(nodes)}
    for place, node in enumerate(nodes):
        if takes_turn(node) and node.message.tool_calls:
            calls = tuple(
                msgspec.structs.replace(made, name=called_as(made.name, served.names))
                for made in node.message.tool_calls
            )
            nodes[place] = msgspec.structs.replace(
                node, message=msgspec.structs.replace(node.message, tool_calls=calls)
            )
        action = places.get(str(node.attributes.get(REFUSES, "")))
        if action is not None and len(nodes[action].message.tool_calls) == 1:
            _note(nodes, action, {REFUSED: node.attributes.get("by", "")})
    unseen, turns = served.unseen(), [place for place, node in enumerate(nodes) if takes_turn(node)]
    if unseen and turns:  # it was launched, and the program kept it from its model
        _note(nodes, max(0, turns[-1] - 1), unseen)


def _note(nodes: list[Node], place: int, marks: dict[str, Any]) -> None:
    nodes[place] = msgspec.structs.replace(nodes[place], attributes={**nodes[place].attributes, **marks})


class _Nowhere:
    """A program's turns are written by the gateway."""

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        """Take records, and keep none."""
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done
