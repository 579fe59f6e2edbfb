"""What a run opens before its first episode, here or on a worker: the hosts of its environments, and its policy."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from silva.envs import EnvironmentEntry, HostPool, Registry
from silva.errors import UsageError
from silva.models.connect import open_model
from silva.models.local import ROWS
from silva.models.model import Model
from silva.rollout.added_tools import AddedPool, for_whom
from silva.rollout.agent import Agent, AgentFor, ToolAgent
from silva.rollout.config import RolloutConfig
from silva.rollout.policies import BuiltIn, BuiltInPolicy
from silva.rollout.react import ReActAgent
from silva.rollout.takeover import TakenOver

if TYPE_CHECKING:
    from silva.rollout.rendering import Rendering


async def open_policy(config: RolloutConfig, stack: AsyncExitStack) -> AgentFor:
    """What makes an agent for a live environment; starts the models that are needed, each once, and stops them with the
    stack. A role that the run does not name is played by the environment's expert.

    Raises:
        UsageError, MissingError, ModelError: a model or the renderer cannot be had.
    """
    models: dict[str, Model] = {}
    first = await _player(config, stack, models)
    others = {name: await _player(config.for_role(name), stack, models) for name in config.roles}
    expert = await _player(config.for_role(""), stack, models)

    def agent_for(env: Any, role: str = "") -> Agent:
        if not role:
            return first(env)
        return others.get(role, expert)(env)

    return agent_for


def served_as(config: RolloutConfig) -> dict[str, object]:
    """How the run's models are opened, as fields of `Options`: at what price, where it is said; one that is started for
    the run computes all attempts that go on at once."""
    price = config.budget.price
    return {"endpoint": price.endpoint if price is not None else {}, "rows": max(ROWS, config.pool)}


async def _player(config: RolloutConfig, stack: AsyncExitStack, models: dict[str, Model]) -> Callable[[Any], Agent]:
    if config.policy != "model":
        return await _built_in(config.policy, config)
    if config.model not in models:
        models[config.model] = await open_model(config.model, **served_as(config))
        stack.push_async_callback(models[config.model].close)
    model = models[config.model]
    agent = ReActAgent(model) if config.agent == "react" else ToolAgent(model)
    if not config.guidance.renderer:
        return lambda _env: agent
    taken_over = TakenOver(agent, await _renderings(config.guidance.renderer, config.agent))
    return lambda _env: taken_over


async def _built_in(name: BuiltIn, config: RolloutConfig) -> Callable[[Any], Agent]:
    if not config.renderer:
        return lambda env: BuiltInPolicy(name, env, slips=config.slips)
    rendering = await _renderings(config.renderer, config.agent)
    return lambda env: BuiltInPolicy(name, env, rendering(), config.slips)


async def _renderings(source: str, agent: str) -> Callable[[], Rendering]:
    from silva.models.exact import open_renderer  # tokenizers, which runs without a renderer need not have
    from silva.rollout.rendering import Rendering

    renderer = await asyncio.to_thread(open_renderer, source)
    form = "react" if agent == "react" else "tools"
    return lambda: Rendering(renderer, form)


def host_pool(name: str, entry: EnvironmentEntry, config: RolloutConfig) -> HostPool:
    """The hosts for the environment that the run calls `name`, with its share of the run's pool, and for the servers
    whose tools are added to it.

    Raises:
        UsageError: there is no such set of servers.
    """
    hosts = config.hosts
    share = _instances(config)
    settings: dict[str, Any] = {
        "hosts": min(hosts.count, share),
        "instances_per_host": hosts.instances or math.ceil(share / min(hosts.count, share)),
        "step_timeout": config.deadlines.environment,
        "memory_limit_mb": hosts.memory_mb,
        "pass_variables": hosts.pass_variables,
    }
    mode = "inline" if hosts.inline else "process"
    options = dict(config.options.get(name, {}))
    if not config.tools:
        return HostPool(entry, mode=mode, options=options, **settings)
    registry = Registry.load()
    sets = {each: for_whom(each)[1] for each in config.tools}
    added = {
        each: HostPool(registry.entry(servers), options=dict(config.options.get(servers, {})), **settings)
        for each, servers in sets.items()
    }
    return AddedPool(entry, added, mode=mode, options=options, **settings)


def capacity(pool: HostPool, config: RolloutConfig) -> int:
    """How many episodes of one environment may be in flight: its share of the pool, or what its hosts can hold.

    Raises:
        UsageError: candidates are to be tried, and there is no room for a second instance.
    """
    share = math.ceil(config.pool / len(config.env))
    hosts = 1 if config.hosts.inline else min(config.hosts.count, _instances(config))
    limits = [limit for limit in (config.hosts.instances, pool.capabilities.parallel) if limit]
    if not limits:
        return share
    room = hosts * min(limits)
    if config.searches and room < 2:
        raise UsageError(
            f"candidates: {pool.entry.name} has room for one instance, and they are tried in another: say hosts.count=2"
        )
    return min(share, room // 2 if config.searches else room)


def _instances(config: RolloutConfig) -> int:
    """Instances of one environment: one for each episode in flight, and, where candidates are tried, as many again."""
    return math.ceil(config.pool / len(config.env)) * (2 if config.searches else 1)
