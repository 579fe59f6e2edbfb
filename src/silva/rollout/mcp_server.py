"""A server of the Model Context Protocol as Silva makes one: the tools it lists, and what a call of one says.

    client ─ tools/list ─▶ `tools`          ─ tools/call ─▶ `call` ─▶ a text ; tools that are others now are announced

`silva.rollout.outside_mcp` serves an environment to whoever plays it, `silva.rollout.served_tools` tools to an agent
that is a program. One call at a time: they stand in an order on the tree.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from silva.errors import MissingError
from silva.tree import Message, TextPart, Tool


def needed() -> None:
    """Raises MissingError: the package mcp is not installed."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingError("serving over MCP needs the package mcp: pip install 'silva[mcp]'") from error


def server(
    name: str,
    instructions: str,
    tools: Callable[[], Awaitable[Sequence[Tool]]],
    call: Callable[[str, dict[str, Any]], Awaitable[str]],
) -> Any:
    """A server (`mcp.server.Server`).

    Args:
        name: as clients see it.
        instructions: what it says of itself.
        tools: those in force now.
        call: what a call of a tool says; it is asked one after another, and not while tools are listed.
    """
    import mcp_types as types
    from mcp.server import Server

    lock, listed = asyncio.Lock(), [""]

    async def shown() -> list[Any]:
        own = [
            types.Tool(name=each.name, description=each.description, input_schema={"type": "object", **each.parameters})
            for each in await tools()
        ]
        listed[0] = json.dumps([(each.name, each.description, each.input_schema) for each in own])
        return own

    async def on_list_tools(context: Any, params: Any) -> Any:
        async with lock:
            return types.ListToolsResult(tools=await shown())

    async def on_call_tool(context: Any, params: Any) -> Any:
        async with lock:
            before = listed[0]
            text = await call(params.name, params.arguments or {})
            await shown()
            if listed[0] != before:
                await context.session.send_tool_list_changed()
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server(name, instructions=instructions, on_list_tools=on_list_tools, on_call_tool=on_call_tool)


def guarded(app: Callable[..., Awaitable[None]], token: str) -> Callable[..., Awaitable[None]]:
    """An ASGI application that answers 401 to whoever does not bring the token."""

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or hmac.compare_digest(brought(scope), token.encode()):
            await app(scope, receive, send)
        else:
            await refused(send)

    return asgi


def brought(scope: Any) -> bytes:
    """The token that a request brings; nothing where it brings none."""
    scheme, _, token = dict(scope.get("headers") or ()).get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


async def refused(send: Any) -> None:
    """Answer a request that brings no token, or one that is good for nothing."""
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"bring the token: Authorization: Bearer TOKEN\n"})


def in_words(message: Message) -> str:
    """A message in words; calls as what was called."""
    words = "\n".join(part.text if isinstance(part, TextPart) else "[image]" for part in message.parts)
    calls = "\n".join(f"{made.name}({made.arguments})" for made in message.tool_calls)
    return "\n".join(each for each in (words, calls) if each)
