"""Who speaks next in an episode of several agents: each role has its own model, tools and walk, in one tree.

    Observation.role ─▶ Roles.addressed ─▶ that role's Live: its path, agent, tools
                                            └▶ its Pipeline: the same short pipeline, stages of its own
    env.step(action of the role that was addressed) ─▶ the next Observation, to whichever role is next

The environment says whose turn it is; nothing here decides that. The role that the episode is about (the first of
`Capabilities.roles`) is the one that is there from the beginning, with the path, stages and record of an episode of one
agent; the others are made when they are first spoken to. What a role says is an action on its own walk alone; where
another is told of it, that stands there as what the environment said, with who said it and on which node
(`silva.tree.role`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from silva.envs import Evaluation, Observation
from silva.errors import UsageError
from silva.rollout.agent import AgentFor
from silva.rollout.config import RolloutConfig
from silva.rollout.ending import Ended
from silva.rollout.live import Live
from silva.rollout.stages.order import pipeline
from silva.rollout.stages.pipeline import Pipeline
from silva.tree import NO_USAGE, Author, Boundary, Failure, Node, Usage
from silva.tree.role import ROLE, ROLES, SAID, SPEAKER, role_slot

VOICES = {"attacker": Author.ATTACKER}
"""Whose words stand on another's walk under an author of their own; all others' are the environment's."""


@dataclass(frozen=True, slots=True)
class Role:
    """One agent of the episode, and what happens around its turns."""

    name: str
    live: Live
    stages: Pipeline


class Roles:
    """The agents of one episode.

    Args:
        live: the episode as the role sees it that it is about.
        stages: around that role's turns.
        stored: nodes of the other roles where the attempt was cut off, by the slot they carry.
    """

    def __init__(self, live: Live, stages: Pipeline, stored: Mapping[str, Sequence[Node]] | None = None) -> None:
        self._first = Role("", live, stages)
        self._others: dict[str, Role] = {}
        self._stored = stored or {}
        self._names: tuple[str, ...] = ()
        self._agent_for: AgentFor | None = None

    def begin(self, agent_for: AgentFor) -> None:
        """The environment is there: take the roles it declares."""
        live = self._first.live
        self._agent_for = agent_for
        self._names = tuple(live.env.capabilities.roles)
        if self._names:
            self._first = Role(self._names[0], live, self._first.stages)
            live.role, live.together = self._names[0], self._together

    def __iter__(self) -> Iterator[Role]:
        """Those who have been spoken to, the first role before the others."""
        return iter((self._first, *self._others.values()))

    def addressed(self, observation: Observation) -> Live:
        """The role whom an observation is said to, and whose turn is next.

        Raises:
            Ended: the environment speaks to a role that it does not declare.
        """
        name = observation.role
        if not name or name == self._first.name:
            return self._first.live
        if name not in self._names:
            roles = ", ".join(self._names) or "none"
            message = f"the environment speaks to the role {name!r}; it declares {roles}"
            raise Ended(Failure(boundary=Boundary.ENVIRONMENT, code="env.role", message=message))
        if name not in self._others:
            self._others[name] = self._made(name)
        return self._others[name].live

    def stages(self, live: Live) -> Pipeline:
        """What happens around the turns of one role."""
        return self._first.stages if live is self._first.live else self._others[live.role].stages

    def told(self, observation: Observation) -> tuple[Observation, Author]:
        """An observation with who said its last message, and on which node; and the author it stands under."""
        speaker = observation.speaker
        if not speaker:
            return observation, Author.ENVIRONMENT
        said = next((each.live.path.action(0) for each in self if each.name == speaker), None)
        marks = {SPEAKER: speaker, **({SAID: said.id} if said is not None else {})}
        attributes = {**observation.attributes, **marks}
        return msgspec.structs.replace(observation, attributes=attributes), VOICES.get(speaker, Author.ENVIRONMENT)

    async def at_end(self) -> None:
        """No turn follows, of any role."""
        for role in self:
            await role.stages.at_end(role.live)

    async def on_evaluation(self, evaluation: Evaluation) -> Evaluation:
        """The verdict, with what every role's stages found."""
        for role in self:
            evaluation = await role.stages.on_evaluation(role.live, evaluation)
        return evaluation

    async def finish(self) -> None:
        """Write what is pending on the walks of the other roles, and wait until it is on disk."""
        for role in self._others.values():
            await role.live.path.finish()

    @property
    def usage(self) -> Usage:
        """What all of them cost together."""
        return self._together()[1] if self._others else self._first.live.path.usage

    def attributes(self, scores: Mapping[str, float], score: float | None) -> dict[str, Any]:
        """What the trajectory's record says: of one agent what its stages say, of several also who they were."""
        own = self._first.stages.attributes()
        if not self._names:
            return own
        facts = {role.name: _facts(role, score if role is self._first else scores.get(role.name)) for role in self}
        return {**own, ROLE: self._first.name, ROLES: facts}

    def _together(self) -> tuple[int, Usage]:
        paths = [role.live.path for role in self]
        return sum(path.turns for path in paths), sum((path.usage for path in paths), NO_USAGE)

    def _made(self, name: str) -> Role:
        first = self._first.live
        assert self._agent_for is not None
        slot = role_slot(first.slot.name, name)
        config = first.config.for_role(name)
        live = Live(config, first.slot, first.path.beside_it(slot, self._stored.get(slot, ())), first.overdrawn, name)
        live.env, live.blobs, live.limit, live.deadline = first.env, first.blobs, first.limit, first.deadline
        live.agent, live.together = self._agent_for(first.env, name), self._together
        stages, _ = pipeline(live, None)
        return Role(name, live, stages)


def _facts(role: Role, score: float | None) -> dict[str, Any]:
    live = role.live
    path, config, usage = live.path, live.config, live.path.usage
    leaf, last = path.leaf, path.action(0)
    said: dict[str, Any] = {
        "leaf_id": leaf.id if leaf is not None else None,
        "model": config.policy_name,
        "agent": config.agent if config.policy == "model" else config.policy,
        "policy_version": last.policy_version if last is not None else "",
        "turns": path.turns,
        "reward": path.reward,
        "score": score,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "usd": usage.usd,
        "model_seconds": usage.model_seconds,
    }
    others = {} if live.role == "" else role.stages.attributes()
    return said | ({"stages": others} if others else {})


def known_roles(config: RolloutConfig, declared: Mapping[str, tuple[str, ...]]) -> None:
    """Whether every role that a run names is one of its environments', by what these declare.

    Raises:
        UsageError: it is not, or is the one that the run's own policy plays; or a program is to play among several, or
            candidates are to be tried there.
    """
    for env, roles in declared.items():
        if roles and config.searches:
            raise UsageError(f"environment {env} has several agents ({', '.join(roles)}): candidates are for one agent")
        if roles and (config.command or config.on == "ray"):
            where = "a program cannot play there" if config.command else "it is not played on Ray"
            raise UsageError(f"environment {env} has several agents ({', '.join(roles)}): {where} yet")
    known = {role for roles in declared.values() for role in roles[1:]}
    first = {roles[0] for roles in declared.values() if roles}
    for name in config.roles:
        if name in first:
            raise UsageError(f"role {name}: it is played by the run's own policy; say --model or --policy for it")
        if name not in known:
            there = ", ".join(sorted(known)) or "none: its environments have one agent"
            raise UsageError(f"role {name}: no environment of this run has it; there are {there}")
