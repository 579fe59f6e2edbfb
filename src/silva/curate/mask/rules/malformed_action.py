"""Malformed action: it says nothing, was cut off, or calls what cannot be called so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from silva.curate.mask.rule import Finding
from silva.curate.turn import Call, Turn, Walk
from silva.tree import Tool

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class MalformedAction:
    """No words and no call (but at the end of what the task's own check calls done: there silence is how one
    stops); cut off at the length limit; arguments that are not an object; a tool that is not there;
    arguments that are missing, unknown, of another type or beyond the range or the choice that its schema gives."""

    name = "malformed-action"
    summary = "the action says nothing, was cut off, or its call does not fit the tools"

    def find(self, walk: Walk) -> Iterable[Finding]:
        """See `Rule`."""
        for turn in walk.turns:
            fault = _fault(turn)
            if fault and not (walk.proven and turn.is_last and _silent(turn)):
                yield Finding(turn, fault)


def _silent(turn: Turn) -> bool:
    return not turn.action.message.tool_calls and not turn.action.message.text.strip()


def _fault(turn: Turn) -> str:
    if _silent(turn):
        return "no words and no tool call"
    if turn.action.finish_reason == "length":
        return "cut off at the length limit"
    tools = {tool.name: tool for tool in turn.tools}
    return next(filter(None, (_call_fault(call, tools) for call in turn.calls)), "")


def _call_fault(call: Call, tools: dict[str, Tool]) -> str:
    if call.arguments is None:
        return call.fault
    if not tools:
        return ""
    tool = tools.get(call.name)
    if tool is None:
        return f"there is no tool {call.name[:60]!r}"
    schema: dict[str, Any] = tool.parameters or {}
    known: dict[str, Any] = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in call.arguments:
            return f"{call.name}: {name} is missing"
    for name, value in call.arguments.items():
        if known and name not in known and schema.get("additionalProperties", False) is False:
            return f"{call.name}: there is no argument {name[:60]!r}"
        wanted = _TYPES.get(str((known.get(name) or {}).get("type")))
        if wanted and not (isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))):
            return f"{call.name}: {name} is not of type {known[name]['type']}"
        if not _within(value, known.get(name) or {}):
            return f"{call.name}: {name} is not among what the tool takes"
    return ""


def _within(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is one of those enumerated, and a number in its range."""
    choice = schema.get("enum")
    if isinstance(choice, list) and choice and value not in choice:
        return False
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    least, most = schema.get("minimum"), schema.get("maximum")
    return not (isinstance(least, (int, float)) and value < least) and not (
        isinstance(most, (int, float)) and value > most
    )
