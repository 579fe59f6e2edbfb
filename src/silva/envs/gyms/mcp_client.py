"""One MCP server as an agent's tools: what it lists, what it answers, and what is told where it does not.

    Connection.open(name, target) ─▶ listed ─▶ Tool(s) ─▶ call ─▶ words ─▶ close
       resources and prompts of a server are tools too: `read_resource`, `get_prompt`

The client's context belongs to one task, so that it can be entered and left whoever asks meanwhile. A server that dies,
hangs or floods is a `Broken` of one line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from silva.errors import Exit, SilvaError
from silva.tree import Tool

MOST_TOOLS = 256
LONGEST_LISTING = 256 << 10
"""Characters of one tool's description and schema."""

LONGEST_RESULT = 1 << 20
"""Characters of a result that are shown."""

READ, PROMPT = "read_resource", "get_prompt"


class Broken(SilvaError):
    """A server that cannot be used any more, or not at all."""

    code = Exit.UNREACHABLE


class Connection:
    """A server that is connected."""

    def __init__(self, name: str, seconds: float, why: Callable[[], str]) -> None:
        self.name = name
        self._seconds, self._why = seconds, why
        self._client: Any = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, name: str, target: Any, seconds: float, why: Callable[[], str] = lambda: "") -> Connection:
        """Connect to a server.

        Args:
            name: as the task file calls it.
            target: a transport, or a URL.
            seconds: how long any answer may take.
            why: what the transport knows of why it broke.

        Raises:
            Broken: it does not answer, or not as an MCP server does.
        """
        made = cls(name, seconds, why)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        made._task = asyncio.create_task(made._hold(target, ready))
        try:
            await made._asked("its start", asyncio.shield(ready))
        except BaseException:
            await made.close()
            raise
        return made

    async def listed(self) -> tuple[Tool, ...]:
        """The server's tools as it lists them now, and those for its resources and prompts.

        Raises:
            Broken: it does not answer, or lists more than can be shown to anybody.
        """
        tools = [
            Tool(name=each.name, description=each.description or "", parameters=each.input_schema)
            for each in await self._all("tools", self._client.list_tools, "tools")
        ]
        has = self._client.server_capabilities
        if has.resources is not None:
            found = await self._all("resources", self._client.list_resources, "resources")
            lines = "\n".join(f"{each.uri}: {each.description or each.name}" for each in found)
            tools.append(_reader(READ, f"Read a resource. There are:\n{lines}", "uri"))
        if has.prompts is not None:
            found = await self._all("prompts", self._client.list_prompts, "prompts")
            lines = "\n".join(f"{each.name}: {each.description or ''}" for each in found)
            tools.append(_reader(PROMPT, f"Get a prompt. There are:\n{lines}", "name"))
        for tool in tools:
            if len(tool.description) + len(json.dumps(tool.parameters)) > LONGEST_LISTING:
                raise self._broken(
                    f"the tool {tool.name[:64]!r} has a listing of more than {LONGEST_LISTING:,} characters"
                )
        return tuple(tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What a tool answers, as words; an error of the tool is words too.

        Raises:
            Broken: the server died, or did not answer in time.
        """
        what = f"the call of {tool}"
        if tool == READ:
            said = await self._asked(what, self._client.read_resource(str(arguments.get("uri", ""))))
            parts = [said] if isinstance(said, str) else [_words(each) for each in said.contents]
        elif tool == PROMPT:
            given = {key: str(each) for key, each in arguments.items() if key != "name"}
            said = await self._asked(what, self._client.get_prompt(str(arguments.get("name", "")), given))
            parts = [said] if isinstance(said, str) else [_words(each.content) for each in said.messages]
        else:
            said = await self._asked(what, self._client.call_tool(tool, arguments))
            parts = [said] if isinstance(said, str) else _parts(said)
        text = "\n".join(parts)
        cut = len(text) - LONGEST_RESULT
        return text if cut <= 0 else f"{text[:LONGEST_RESULT]}\n[cut: {cut:,} characters more]"

    async def close(self) -> None:
        """Leave the server; one that Silva started ends."""
        self._closing.set()
        if self._task is not None:
            _, waiting = await asyncio.wait([self._task], timeout=5.0)
            if waiting:
                self._task.cancel()
                await asyncio.wait([self._task], timeout=5.0)

    async def _hold(self, target: Any, ready: asyncio.Future[None]) -> None:
        from mcp import Client

        try:
            async with Client(target, cache=None) as client:
                self._client = client
                ready.set_result(None)
                await self._closing.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(self._broken(self._why() or f"it cannot be connected to: {_first(error)}"))
                ready.exception()
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _all(self, what: str, ask: Callable[..., Coroutine[Any, Any, Any]], field: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        while True:
            page = await self._asked(f"its list of {what}", ask(cursor=cursor))
            if isinstance(page, str):
                raise self._broken(f"it does not list its {what}: {page}")
            found += getattr(page, field)
            if len(found) > MOST_TOOLS:
                raise self._broken(f"it lists more than {MOST_TOOLS} {what}")
            cursor = page.next_cursor
            if not cursor or not getattr(page, field):
                return found

    async def _asked(self, what: str, work: Any) -> Any:
        """The answer; words where the server answers with an error."""
        from mcp import MCPError

        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError as error:
            raise self._broken(f"it did not answer {what} within {self._seconds:g} s") from error
        except MCPError as error:
            if self._why() or (self._task is not None and self._task.done()) or "closed" in str(error).casefold():
                raise self._broken(self._why() or f"it hung up at {what}") from error
            return f"error: {' '.join(str(error).split())[:2000]}"
        except SilvaError:
            raise
        except Exception as error:  # whatever a broken connection comes to in the client
            raise self._broken(self._why() or f"{what}: {_first(error)}") from error

    def _broken(self, why: str) -> Broken:
        return Broken(f"mcp: server {self.name}: {why}")


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".rstrip(": ")


def _reader(name: str, description: str, argument: str) -> Tool:
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return Tool(name=name, description=description, parameters=parameters)


def _parts(said: Any) -> list[str]:
    """What a tool's result says."""
    parts = [_words(each) for each in said.content]
    if not parts and said.structured_content is not None:
        parts = [json.dumps(said.structured_content, ensure_ascii=False)]
    return ["error: " + "\n".join(parts)] if said.is_error else parts


def _words(content: Any) -> str:
    text = getattr(content, "text", None)
    if isinstance(text, str):
        return text
    inner = getattr(getattr(content, "resource", None), "text", None)
    if isinstance(inner, str):
        return inner
    return f"[{getattr(content, 'type', 'content')}, {getattr(content, 'mime_type', None) or 'not text'}]"
