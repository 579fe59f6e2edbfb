"""Tools and arguments by other names, as after an update that nobody announced.

    tools as the environment has them ─▶ renamed ─▶ as they are shown
    a call by the names shown         ─▶ restored ─▶ as the environment takes it; by an old name: refused, in words

The new names follow from the old ones, so nothing is remembered. On the tree a call stands as the environment takes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from silva.envs import Observation
from silva.tree import Message, Tool, ToolCall

SUFFIX = "_v2"
_NEW = "new_"


def renamed(observation: Observation) -> Observation:
    """An observation whose tools have other names, and their arguments too."""
    tools = tuple(_shown(tool) for tool in observation.tools or ())
    return msgspec.structs.replace(observation, tools=tools)


def restored(action: Message, shown: Sequence[Tool]) -> Message | str:
    """An action as the environment takes it; why it cannot be taken where a call goes by an old name.

    Args:
        action: the agent's.
        shown: the tools it is shown.
    """
    known = {tool.name for tool in shown}
    calls: list[ToolCall] = []
    for made in action.tool_calls:
        if made.name not in known and f"{made.name}{SUFFIX}" in known:
            return f"there is no tool {made.name} any more: it is {made.name}{SUFFIX}, and its arguments have new names"
        name = made.name.removesuffix(SUFFIX) if made.name in known else made.name
        calls.append(msgspec.structs.replace(made, name=name, arguments=_arguments(made.arguments)))
    return msgspec.structs.replace(action, tool_calls=tuple(calls))


def _shown(tool: Tool) -> Tool:
    parameters = dict(tool.parameters)
    properties: dict[str, Any] = parameters.get("properties") or {}
    if properties:
        parameters["properties"] = {f"{_NEW}{name}": schema for name, schema in properties.items()}
        parameters["required"] = [f"{_NEW}{name}" for name in parameters.get("required") or ()]
    return msgspec.structs.replace(tool, name=f"{tool.name}{SUFFIX}", parameters=parameters)


def _arguments(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if not isinstance(value, dict):
        return text
    return json.dumps({name.removeprefix(_NEW): each for name, each in value.items()}, ensure_ascii=False)
