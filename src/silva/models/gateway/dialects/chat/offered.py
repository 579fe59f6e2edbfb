"""The tools of a Chat Completions body, and which of them the model may or must call."""

from __future__ import annotations

import msgspec

from silva.models.carried import Open, joined, nested
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.offered import Chosen, Described, allowed, forced, mode, tool
from silva.models.gateway.dialects.reading import Name, decoded, distinct, reader, remembered
from silva.models.gateway.dialects.schema import schema
from silva.tree import Json, Tool


class _Function(Described):
    parameters: Json | None = None


class _Tool(Open):
    type: str = "function"
    function: _Function | None = None


class _Named(Open):
    name: Name


class _Reference(Open):
    type: str
    function: _Named | None = None


class _Allowed(Open):
    tools: list[_Reference]
    mode: str = "auto"


class _Choice(Open):
    type: str = "function"
    name: Name | None = None
    function: _Named | None = None
    allowed_tools: _Allowed | None = None


Tools = list[_Tool] | None
Functions = list[_Function] | None
Choice = str | _Choice | None

_decode_tools = reader(Tools)
_decode_functions = reader(Functions)
_decode_choice = reader(Choice)


def _read_tools(data: bytes) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for place, entry in enumerate(decoded(_decode_tools, data, "tools") or ()):
        if entry.type != "function":
            raise Malformed(
                f"tools of type {entry.type[:40]!r} are not supported: send functions", f"tools[{place}].type"
            )
        if entry.function is None:
            raise Malformed("this field is required", f"tools[{place}].function")
        extra = joined(entry.extra, nested(function=entry.function.extra))
        tools.append(_tool(entry.function, f"tools[{place}].function", extra))
    return distinct(tuple(tools), "tools")


def _read_functions(data: bytes) -> tuple[Tool, ...]:
    found = decoded(_decode_functions, data, "functions") or ()
    return distinct(
        tuple(_tool(entry, f"functions[{place}]", nested(function=entry.extra)) for place, entry in enumerate(found)),
        "functions",
    )


def _tool(function: _Function, field: str, extra: Json | None) -> Tool:
    return tool(function, schema(function.parameters or {}, f"{field}.parameters"), extra)


tools_of = remembered(_read_tools)
"""The tools of the field `tools`. Raises Malformed."""

functions_of = remembered(_read_functions)
"""The tools of the old field `functions`. Raises Malformed."""


def chosen(raw: msgspec.Raw, tools: tuple[Tool, ...], field: str) -> Chosen:
    """What `tool_choice` says, or the old field `function_call`.

    Raises:
        Malformed: a choice of another kind, or of a tool that is not there.
    """
    choice = decoded(_decode_choice, raw, field)
    if choice is None:
        return Chosen(None, tools)
    if isinstance(choice, str):
        return Chosen(mode(choice, field), tools)
    if choice.type == "allowed_tools":
        if choice.allowed_tools is None:
            raise Malformed("this field is required", f"{field}.allowed_tools")
        listed = choice.allowed_tools.tools
        names = [entry.function.name if entry.function is not None else "" for entry in listed]
        extras = (choice.extra, choice.allowed_tools.extra, *(entry.extra for entry in listed))
        return allowed(names, choice.allowed_tools.mode, tools, f"{field}.allowed_tools", extras)
    if choice.type != "function":
        raise Malformed(f"a choice of type {choice.type[:40]!r} is not supported", f"{field}.type")
    name, extra = choice.name, choice.extra
    if choice.function is not None:
        name, extra = choice.function.name, joined(extra, nested(function=choice.function.extra))
    return Chosen(forced(name, tools, f"{field}.function.name"), tools, extra)
