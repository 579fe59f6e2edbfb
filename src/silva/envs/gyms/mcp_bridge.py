"""Any MCP servers as an environment: their tools are the agent's, and a check by effect says whether a task was done.

    mcp/FILE.yaml ─ servers ─▶ sandbox (a command) or HTTP (a url) ─▶ tools ─▶ calls ─▶ results ─▶ check ─▶ Evaluation

Servers are started anew for every episode. Of several servers each tool is named `SERVER__TOOL`. They are asked for
their tools again after every turn; where one says otherwise than before, announced or not, the agent is shown it with
the next answer. A server's wish to sample from the agent's model is declined.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from silva.envs.gyms.mcp_client import Connection
from silva.envs.gyms.mcp_entry import PREFIX
from silva.envs.gyms.mcp_sandbox import Wire
from silva.envs.gyms.mcp_tasks import Call, Check, Server, TaskFile, read
from silva.envs.gyms.terminal.backend import borrow, give_back
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, ToolCall, assistant, system, tool_result, user

RULES = "You do a task with tools of MCP servers. When it is done, answer in words, without a call."


class McpBridge:
    """Base of the classes made by `__getattr__`; `path` is the task file.

    Args:
        seconds: How long a server may take to start, and for any answer.
        sandbox: What holds servers that are programs: namespaces, container or process (no isolation).
    """

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, deterministic=False, max_turns=50)
    path: ClassVar[Path]
    name: ClassVar[str]

    def __init__(self, seconds: float = 30.0, sandbox: str = "namespaces") -> None:
        if not seconds > 0:
            raise UsageError(f"mcp: seconds {seconds}: above 0")
        self._seconds, self._sandbox = seconds, sandbox
        self._servers: dict[str, Connection] = {}
        self._listed: dict[str, tuple[Tool, ...]] = {}
        self._routes: dict[str, tuple[Connection, str]] = {}
        self._borrowed = self._alone = False
        self._check: Check | None = None

    @classmethod
    def file(cls) -> TaskFile:
        """The task file."""
        return read(cls.path)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The file's tasks of a split.

        Raises:
            UsageError: the file cannot be used, or has no such split.
        """
        found = cls.file()
        splits = tuple(dict.fromkeys(task.split for task in found.tasks)) or ("test",)
        if split not in splits:
            raise UsageError(f"{cls.name}: no split {split!r}: one of {', '.join(splits)}")
        for task in found.tasks:
            if task.split == split:
                data = {"check": msgspec.to_builtins(task.check)}
                yield Task(
                    id=f"{cls.name}/{task.id}", env=cls.name, instruction=task.instruction, split=split, data=data
                )

    async def reset(self, task: Task, seed: int) -> Observation:
        """Start the servers and list their tools.

        Raises:
            UsageError: the file or the task's check cannot be used.
            Broken: a server does not start.
        """
        await self._leave()
        self._alone = task.data.get("servers") == "alone"  # tools for another environment: nothing is to be done here
        try:
            self._check = Check() if self._alone else msgspec.convert(task.data.get("check"), Check)
        except msgspec.ValidationError as error:
            raise UsageError(f"task {task.id}: data.check: {error}") from error
        self._made: list[ToolCall] = []
        self._answer, self._ended = "", False
        for name, server in self.file().servers.items():
            self._servers[name] = await self._opened(name, server)
            self._listed[name] = await self._servers[name].listed()
        return Observation(messages=(system(RULES), user(task.instruction)), tools=self._tools())

    async def step(self, action: Message) -> Observation:
        """Make the calls; words without one end the episode.

        Raises:
            Broken: a server died, hung or flooded.
        """
        self._playing()
        self._answer = action.text
        if self._ended or not action.tool_calls:
            self._ended = True
            return Observation(done=True)
        answers = [await self._called(made) for made in action.tool_calls]
        before = dict(self._listed)
        for name, server in self._servers.items():
            self._listed[name] = await server.listed()
        return Observation(messages=tuple(answers), tools=None if self._listed == before else self._tools())

    async def evaluate(self) -> Evaluation:
        """1 where all that the check asks for holds, else 0."""
        check = self._playing()
        good = all(any(_made(made, wanted) for made in self._made) for wanted in check.calls)
        if check.answer:
            good = good and re.search(check.answer, self._answer) is not None
        if check.after is not None:
            tool = self._found(check.after.tool)
            if tool is None:
                raise UsageError(f"{self.name}: check.after: there is no tool {check.after.tool!r}")
            said = await tool[0].call(tool[1], dict(check.after.arguments))
            good = good and re.search(check.after.expect, said) is not None
        return Evaluation(score=float(good), success=good, metrics={"calls": float(len(self._made))})

    async def null(self) -> Message:
        """Give up at once."""
        return assistant("I cannot help with that.")

    async def close(self) -> None:
        """Leave the servers; those started here end."""
        await self._leave()
        if self._borrowed:
            self._borrowed = False
            await give_back(self._sandbox, None, self)

    async def _opened(self, name: str, server: Server) -> Connection:
        if server.url:
            return await Connection.open(name, _at(server), self._seconds)
        if not self._borrowed:
            self._borrowed = True
            self._backend = await borrow(self._sandbox, None, self)
        wire = Wire(self._backend, server, self.path.resolve().parent)
        return await Connection.open(name, wire.streams(), self._seconds, lambda: wire.why)

    async def _leave(self) -> None:
        servers, self._servers, self._listed = list(self._servers.values()), {}, {}
        await asyncio.gather(*(server.close() for server in servers), return_exceptions=True)

    async def _called(self, made: ToolCall) -> Message:
        found = self._found(made.name)
        if found is None:
            return tool_result(made.id, f"error: there is no tool {made.name!r}", made.name)
        try:
            arguments = made.parsed()
        except ValueError as error:
            return tool_result(made.id, f"error: {error}", made.name)
        said = await found[0].call(found[1], arguments)
        self._made.append(made)
        return tool_result(made.id, said, made.name)

    def _tools(self) -> tuple[Tool, ...]:
        """All tools by the names they are shown under; of two of one name the first server's stands."""
        shown: dict[str, Tool] = {}
        self._routes = {}
        for name, tools in self._listed.items():
            for tool in tools:
                label = re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)[:64]
                label = label if len(self._listed) == 1 and not self._alone else f"{name}__{label}"[:64]
                if label not in shown:
                    shown[label] = msgspec.structs.replace(tool, name=label)
                    self._routes[label] = (self._servers[name], tool.name)
        return tuple(shown.values())

    def _found(self, tool: str) -> tuple[Connection, str] | None:
        return self._routes.get(tool)

    def _playing(self) -> Check:
        if self._check is None or not self._servers:
            raise UsageError(f"{self.name}: no task is being played: call reset first")
        return self._check


def _at(server: Server) -> Any:
    if not server.headers:
        return server.url
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {name: os.path.expandvars(text) for name, text in server.headers.items()}
    return streamable_http_client(server.url, http_client=httpx2.AsyncClient(headers=headers, follow_redirects=False))


def _made(made: ToolCall, wanted: Call) -> bool:
    try:
        given = made.parsed()
    except ValueError:
        return False
    return made.name == wanted.tool and all(given.get(name) == each for name, each in wanted.arguments.items())


class McpProof(McpBridge):
    """The bridge's own server, with its expert."""

    path = Path(__file__).with_name("proofs") / "mcp_sums.yaml"
    name = "mcp"

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin, and note the numbers for the expert."""
        self._numbers = [int(word) for word in re.findall(r"\d+", task.instruction)]
        return await super().reset(task, seed)

    async def expert(self) -> Message:
        """Add one number after the other, then say the sum."""
        if not self._numbers:
            return assistant("That is all of them.")
        number = self._numbers.pop(0)
        return assistant("", ToolCall(id=f"add_{number}", name="add", arguments=f'{{"number": {number}}}'))


def __getattr__(attribute: str) -> type[McpBridge]:
    """The class for one task file."""
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    path = Path(attribute).expanduser().absolute()
    return type("McpBridge", (McpBridge,), {"path": path, "name": f"{PREFIX}{attribute}"})
