"""An environment as an MCP server: a coding agent plays it with its own client, and its walk is in the lake.

    client ─ tools/list ─▶ the environment's tools, `silva_task`, `silva_finish`
           ─ tools/call ─▶ a turn ─▶ what the environment says ; at the end the score, and the next task

Over stdio, or over HTTP on loopback behind a token.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from silva.errors import MissingError
from silva.rollout.outside import Outside, Over, Shown
from silva.tree import Message, TextPart, ToolCall, Trajectory, assistant

TASK, FINISH = "silva_task", "silva_finish"

INSTRUCTIONS = (
    f"You play an environment. Call {TASK} to read what is to be done, do it with the other tools, and call {FINISH} "
    "with your answer, or with a word, when it is done: then you are told the score, and the next task if there is one."
)


def needed() -> None:
    """Raises MissingError: the package mcp is not installed."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingError("serving over MCP needs the package mcp: pip install 'silva[mcp]'") from error


def server(name: str, outside: Outside) -> Any:
    """The MCP server (`mcp.server.Server`) that plays the other end of `outside`.

    Args:
        name: of the environment, as clients see it.
        outside: the agent of a rollout that is under way.
    """
    import mcp_types as types
    from mcp.server import Server

    lock, numbers, listed = asyncio.Lock(), itertools.count(1), [""]

    async def tools() -> list[Any]:
        now = await outside.now()
        own = [_tool(types, each.name, each.description, each.parameters) for each in getattr(now, "tools", ())]
        answer = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
        own.append(
            _tool(types, TASK, "Read the task, and all that was said so far.", {"type": "object", "properties": {}})
        )
        own.append(_tool(types, FINISH, "Say your answer, which ends the task; the score is told.", answer))
        listed[0] = json.dumps([(each.name, each.description, each.input_schema) for each in own])
        return own

    async def on_list_tools(context: Any, params: Any) -> Any:
        async with lock:
            return types.ListToolsResult(tools=await tools())

    async def on_call_tool(context: Any, params: Any) -> Any:
        async with lock:
            now = await outside.now()
            if params.name == TASK or not isinstance(now, Shown):
                return _result(types, _told(now))
            before = listed[0]
            if params.name == FINISH:
                action = assistant(str((params.arguments or {}).get("answer", "")))
            else:
                given = json.dumps(params.arguments or {}, ensure_ascii=False)
                action = assistant("", ToolCall(id=f"call_{next(numbers)}", name=params.name, arguments=given))
            found = await outside.take(action)
            answer = _result(types, _after(found))
            if isinstance(found, Over) and found.trajectory is not None:
                answer.content.append(_text(types, _told(await outside.now())))
            await tools()
            if listed[0] != before:
                await context.session.send_tool_list_changed()
            return answer

    return Server(f"silva-{name}", instructions=INSTRUCTIONS, on_list_tools=on_list_tools, on_call_tool=on_call_tool)


def guarded(app: Callable[..., Awaitable[None]], token: str) -> Callable[..., Awaitable[None]]:
    """An ASGI application that answers 401 to whoever does not bring the token."""
    wanted = f"Bearer {token}".encode()

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        brought = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(brought, wanted):
            await app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"bring the token: Authorization: Bearer TOKEN\n"})

    return asgi


def _tool(types: Any, name: str, description: str, parameters: dict[str, Any]) -> Any:
    return types.Tool(name=name, description=description, input_schema={"type": "object", **parameters})


def _text(types: Any, text: str) -> Any:
    return types.TextContent(type="text", text=text)


def _result(types: Any, text: str) -> Any:
    return types.CallToolResult(content=[_text(types, text)])


def _told(now: Shown | Over) -> str:
    """The whole conversation so far, or that there is none."""
    if isinstance(now, Over):
        return f"No task is left. {now.why}".strip()
    return "\n\n".join(f"[{each.role}]\n{_said(each)}" for each in now.messages)


def _after(found: Shown | Over) -> str:
    """What came of an action."""
    if isinstance(found, Shown):
        return "\n\n".join(_said(each) for each in found.new)
    return _verdict(found.trajectory) if found.trajectory is not None else _told(found)


def _verdict(trajectory: Trajectory) -> str:
    outcome = trajectory.outcome
    if outcome.failure is not None:
        return f"The task ended with a failure: {outcome.failure.message}"
    safety = "" if outcome.safety is None else f", safety {outcome.safety:g}"
    done = {True: "done", False: "not done", None: "not judged"}[outcome.success]
    score = "none" if outcome.score is None else f"{outcome.score:g}"
    return f"The task is over: {done}, score {score}{safety}, {trajectory.turns} turns, trajectory {trajectory.id}."


def _said(message: Message) -> str:
    """A message in words; calls as what was called."""
    words = "\n".join(part.text if isinstance(part, TextPart) else "[image]" for part in message.parts)
    calls = "\n".join(f"{made.name}({made.arguments})" for made in message.tool_calls)
    return "\n".join(each for each in (words, calls) if each)
