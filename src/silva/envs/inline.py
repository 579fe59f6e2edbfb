"""The same calls without a host: the environment's class in this process, for debuggers and for comparison.

Nothing protects the engine here: an environment that hangs without awaiting, or dies, takes the run with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from silva.envs.errors import EnvError
from silva.envs.host import load
from silva.envs.instances import Instances, describe
from silva.envs.process import Launch, fault_error
from silva.envs.protocol import Capabilities
from silva.envs.wire import Reply, Request
from silva.errors import UsageError


class InlineHost:
    """What `HostProcess` is, in process."""

    def __init__(self, launch: Launch, instances: Instances) -> None:
        self.launch = launch
        self._instances = instances
        self.dead: EnvError | None = None
        self.hello = instances.hello()
        self.seconds = 0.0
        self.answered = 0
        self.good = False

    @property
    def capabilities(self) -> Capabilities:
        """What the environment declares."""
        return self.hello.capabilities

    @classmethod
    async def start(cls, launch: Launch) -> InlineHost:
        """Import the environment.

        Raises:
            EnvError: `host.spawn`, with the import error.
        """
        try:
            return cls(launch, Instances(load(launch.target), launch.options, shared=True))
        except UsageError as mistake:
            raise UsageError(f"{launch.name}: {mistake}") from mistake
        except Exception as error:
            message = f"{launch.name}: cannot start: {launch.target}: {describe(error)}"
            raise EnvError("host.spawn", message, retryable=False) from error

    async def call(self, op: str, instance: int, limit: float, **fields: Any) -> Reply:
        """As `HostProcess.call`."""
        try:
            async with asyncio.timeout(limit):
                reply = await self._instances.handle(Request(0, op, instance, limit, **fields))
        except TimeoutError as error:
            raise EnvError("env.timeout", f"{self.launch.name}: {op} took longer than {limit:g} s") from error
        self.seconds += reply.seconds
        self.answered += 1
        if reply.fault is not None:
            raise fault_error(self.launch.name, reply.fault)
        return reply

    def tell(self, op: str, instance: int, limit: float) -> None:
        """As `HostProcess.tell`."""
        self._telling = asyncio.get_running_loop().create_task(self._instances.handle(Request(0, op, instance, limit)))

    def kill(self) -> None:
        """There is no process to end."""

    async def close(self) -> None:
        """Close the instances."""
        await self._instances.close()
