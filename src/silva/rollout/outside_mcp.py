"""An environment as an MCP server: a coding agent plays it with its own client, and its walk is in the lake.

    client ─ tools/list ─▶ the environment's tools, `silva_task`, `silva_finish`
           ─ tools/call ─▶ a turn ─▶ what the environment says ; at the end the score, and the next task

Over stdio, or over HTTP on loopback behind a token.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from silva.rollout.mcp_server import in_words
from silva.rollout.mcp_server import server as mcp_server
from silva.rollout.outside import Outside, Over, Shown
from silva.tree import Tool, ToolCall, Trajectory, assistant

TASK, FINISH = "silva_task", "silva_finish"

INSTRUCTIONS = (
    f"You play an environment. Call {TASK} to read what is to be done, do it with the other tools, and call {FINISH} "
    "with your answer, or with a word, when it is done: then you are told the score, and the next task if there is one."
)

_OWN = (
    Tool(
        name=TASK,
        description="Read the task, and all that was said so far.",
        parameters={"type": "object", "properties": {}},
    ),
    Tool(
        name=FINISH,
        description="Say your answer, which ends the task; the score is told.",
        parameters={"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    ),
)


def server(name: str, outside: Outside) -> Any:
    """The MCP server (`mcp.server.Server`) that plays the other end of `outside`.

    Args:
        name: of the environment, as clients see it.
        outside: the agent of a rollout that is under way.
    """
    numbers = itertools.count(1)

    async def tools() -> tuple[Tool, ...]:
        return (*getattr(await outside.now(), "tools", ()), *_OWN)

    async def call(name: str, arguments: dict[str, Any]) -> str:
        now = await outside.now()
        if name == TASK or not isinstance(now, Shown):
            return _told(now)
        if name == FINISH:
            action = assistant(str(arguments.get("answer", "")))
        else:
            given = json.dumps(arguments, ensure_ascii=False)
            action = assistant("", ToolCall(id=f"call_{next(numbers)}", name=name, arguments=given))
        found = await outside.take(action)
        if isinstance(found, Over) and found.trajectory is not None:
            return f"{_after(found)}\n{_told(await outside.now())}"
        return _after(found)

    return mcp_server(f"silva-{name}", INSTRUCTIONS, tools, call)


def _told(now: Shown | Over) -> str:
    """The whole conversation so far, or that there is none."""
    if isinstance(now, Over):
        return f"No task is left. {now.why}".strip()
    return "\n\n".join(f"[{each.role}]\n{in_words(each)}" for each in now.messages)


def _after(found: Shown | Over) -> str:
    """What came of an action."""
    if isinstance(found, Shown):
        return "\n\n".join(in_words(each) for each in found.new)
    return _verdict(found.trajectory) if found.trajectory is not None else _told(found)


def _verdict(trajectory: Trajectory) -> str:
    outcome = trajectory.outcome
    if outcome.failure is not None:
        return f"The task ended with a failure: {outcome.failure.message}"
    safety = "" if outcome.safety is None else f", safety {outcome.safety:g}"
    done = {True: "done", False: "not done", None: "not judged"}[outcome.success]
    score = "none" if outcome.score is None else f"{outcome.score:g}"
    return f"The task is over: {done}, score {score}{safety}, {trajectory.turns} turns, trajectory {trajectory.id}."
