"""Tools that are added to an environment: those of MCP servers, beside its own.

    lease ─▶ the environment's instance, and one of each set of servers (`mcp/FILE.yaml`), in its own host process
    reset ─▶ its opening, with the servers' tools behind its own, as `SERVER__TOOL`
    action ─┬▶ calls of added tools ─▶ their servers ─▶ tool results ┐
            └▶ the rest, if there is any ─▶ the environment ─────────┴▶ one observation

To all around it this is an environment like any other. The servers start anew for every episode, and keep nothing that
could be taken up again, so such an environment is restored by replay. An action that only calls added tools is no step
of the environment's. Of several agents in an episode the one has the tools that they are added for
(`ROLE=mcp/FILE.yaml`), else the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import msgspec

from silva.envs import EnvError, EnvironmentEntry, HostPool, Observation
from silva.envs.handle import EnvironmentHandle
from silva.envs.pool import Lease
from silva.envs.protocol import Capabilities, Evaluation, Planted
from silva.envs.wire import Captured
from silva.errors import UsageError
from silva.tree import Message, Task, Tool

TURNS = 30
"""Turns that an episode may have besides its environment's own, for calls of added tools."""


class AddedPool(HostPool):
    """The hosts of an environment, and those of the sets of servers that are added to it.

    Args:
        entry: the environment.
        added: the pools of the servers, by the names the run calls them.
        settings: the rest is what `HostPool` takes.
    """

    def __init__(self, entry: EnvironmentEntry, added: dict[str, HostPool], **settings: Any) -> None:
        super().__init__(entry, **settings)
        self._added = added

    async def __aenter__(self) -> AddedPool:
        """Start the hosts.

        Raises:
            EnvError: `host.spawn`, with the reason.
            UsageError: tools are for an agent that the environment does not have.
        """
        async with AsyncExitStack() as stack:
            await super().__aenter__()
            stack.push_async_callback(super().close)
            roles = self.capabilities.roles
            for name in self._added:
                if (role := for_whom(name)[0]) and role not in roles:
                    known = f"there are {', '.join(roles)}" if roles else "it has one, without a name"
                    raise UsageError(f"tools {name}: {self.entry.name} has no agent {role}; {known}")
            for pool in self._added.values():
                await stack.enter_async_context(pool)
            stack.pop_all()
        self.capabilities = widened(self.capabilities)
        return self

    async def close(self) -> None:
        """End all of them."""
        for pool in self._added.values():
            await pool.close()
        await super().close()

    def lease(self, timeout: float | None = None) -> Any:
        """An instance of one's own, with servers of its own."""
        return _LeaseOfAll(super().lease(timeout), {name: pool.lease(timeout) for name, pool in self._added.items()})


class _LeaseOfAll:
    def __init__(self, own: Lease, added: dict[str, Lease]) -> None:
        self._own, self._added = own, added
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> WithTools:
        async with AsyncExitStack() as stack:
            env = await stack.enter_async_context(self._own)
            added = {name: await stack.enter_async_context(lease) for name, lease in self._added.items()}
            self._stack = stack.pop_all()
        return WithTools(env, added)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)


class WithTools:
    """A leased environment to which the tools of servers are added; the calls of `EnvironmentHandle`.

    Args:
        env: the environment's own.
        added: the servers', by the name of their file.
    """

    def __init__(self, env: EnvironmentHandle, added: dict[str, EnvironmentHandle]) -> None:
        self._env, self._added = env, added
        self._own: dict[str, tuple[Tool, ...]] = {}
        self._listed: dict[str, tuple[Tool, ...]] = {}
        self._told: dict[str, tuple[Tool, ...]] = {}
        self._steps = 0
        self._role = ""

    @property
    def capabilities(self) -> Capabilities:
        """What the environment declares, as it holds with the tools."""
        return widened(self._env.capabilities)

    @property
    def broken(self) -> bool:
        """Whether one of them must be discarded."""
        return any(each.broken for each in (self._env, *self._added.values()))

    async def reset(self, task: Task, seed: int = 0) -> Observation:
        """Begin `task`, and start the servers.

        Raises:
            EnvError: the environment or a server failed (as every call here), or two tools have one name.
        """
        observation = await self._env.reset(task, seed)
        self._steps = 0
        for name, server in self._added.items():
            opened = await server.reset(servers_alone(for_whom(name)[1]), seed)
            self._listed[name] = opened.tools or ()
        self._own, self._told = {}, {}
        return self._with(msgspec.structs.replace(observation, tools=observation.tools or ()), ())

    async def step(self, action: Message) -> Observation:
        """Take the assistant's message: calls of added tools by their servers, the rest by the environment."""
        return await self._step(action, self._env.step)

    async def take_again(self, action: Message) -> Observation:
        """Take a stored message again."""
        return await self._step(action, self._env.take_again)

    async def evaluate(self) -> Evaluation:
        """The environment's verdict."""
        return await self._env.evaluate()

    async def expert(self) -> Message:
        """The environment's expert, which knows nothing of added tools."""
        return await self._env.expert()

    async def null(self) -> Message:
        """The environment's null policy."""
        return await self._env.null()

    async def plant(self, surface: str, words: str) -> Planted:
        """Put words into the environment's state."""
        return await self._env.plant(surface, words)

    async def snapshot(self) -> Captured:
        """Servers keep no state that could be taken up again.

        Raises:
            EnvError: always; such an environment is restored by replay.
        """
        raise EnvError("env.snapshot", _NOT_KEPT)

    async def restore(self, captured: Captured) -> None:
        """A state of the environment's alone is none of both.

        Raises:
            EnvError: always; the next reset or an older way is tried.
        """
        raise EnvError("env.snapshot", _NOT_KEPT)

    async def _step(self, action: Message, own: Any) -> Observation:
        owners = {tool.name: name for name, tools in self._added_for(self._role).items() for tool in tools}
        calls = [made for made in action.tool_calls if made.name in owners]
        if not calls:
            return self._with(await self._stepped(own, action), ())
        answers: list[Message] = []
        for made in calls:
            name = owners[made.name]
            said = await self._added[name].step(msgspec.structs.replace(action, parts=(), tool_calls=(made,)))
            answers += said.messages
            if said.tools is not None:
                self._listed[name] = said.tools
        rest = tuple(made for made in action.tool_calls if made not in calls)
        if rest:
            observation = await self._stepped(own, msgspec.structs.replace(action, tool_calls=rest))
            return self._with(observation, answers)
        return self._with(Observation(role=self._role), answers)

    async def _stepped(self, own: Any, action: Message) -> Observation:
        """A step of the environment's, of which an episode has no more than it would have without added tools."""
        observation: Observation = await own(action)
        self._steps += 1
        over = self._steps >= self._env.capabilities.max_turns and not observation.done
        return msgspec.structs.replace(observation, truncated=observation.truncated or over)

    def _with(self, observation: Observation, before: Sequence[Message]) -> Observation:
        """An observation behind what servers answered, with the tools of whom it is said to where they changed."""
        role = self._role = observation.role or next(iter(self._env.capabilities.roles), "")
        if observation.tools is not None:
            self._own[role] = observation.tools
        tools = self._tools(role)
        changed = observation.tools is not None or tools != self._told.get(role, ())
        self._told[role] = tools
        messages = (*before, *observation.messages)
        return msgspec.structs.replace(observation, messages=messages, tools=tools if changed else None)

    def _added_for(self, role: str) -> dict[str, tuple[Tool, ...]]:
        """The tools of servers that an agent has, by set of servers."""
        first = next(iter(self._env.capabilities.roles), "")
        return {name: tools for name, tools in self._listed.items() if (for_whom(name)[0] or first) == role}

    def _tools(self, role: str) -> tuple[Tool, ...]:
        shown = [*self._own.get(role, ()), *(tool for tools in self._added_for(role).values() for tool in tools)]
        names = [tool.name for tool in shown]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise EnvError("env.garbage", f"tools: two tools are called {twice}: give a server another name")
        return tuple(shown)


_NOT_KEPT = "tools of servers are added to it, and servers keep no state: it is restored by replay"


def for_whom(name: str) -> tuple[str, str]:
    """The agent that tools are for ("": the first) and the set of servers, of `[ROLE=]mcp/FILE.yaml`."""
    role, given, servers = name.partition("=")
    return (role, servers) if given and role.isidentifier() else ("", name)


def widened(own: Capabilities) -> Capabilities:
    """What an environment can do when tools of servers are added to it."""
    keeps = "none" if own.snapshot == "none" else "replay"
    return msgspec.structs.replace(
        own, tools=True, deterministic=False, snapshot=keeps, max_turns=own.max_turns + TURNS
    )


def servers_alone(name: str) -> Task:
    """The task that starts the servers of a file and lists their tools, each as `SERVER__TOOL`, with nothing to do."""
    return Task(id=f"{name}/servers", env=name, instruction="", data={"servers": "alone"})
