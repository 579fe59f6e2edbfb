"""The tools of a Chat Completions body, and which of them the model may or must call."""

from __future__ import annotations

import msgspec

from silva.models.carried import Open, joined, nested
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.reading import Name, decoded, distinct, reader, remembered
from silva.models.gateway.dialects.schema import schema
from silva.tree import Json, Tool

MODES = ("auto", "none", "required")


class _Function(Open):
    name: Name
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class _Tool(Open):
    type: str = "function"
    function: _Function | None = None


class _Named(msgspec.Struct):
    name: Name


class _Reference(msgspec.Struct):
    type: str
    function: _Named | None = None


class _Allowed(msgspec.Struct):
    tools: list[_Reference]
    mode: str = "auto"


class _Choice(msgspec.Struct):
    type: str = "function"
    name: Name | None = None
    function: _Named | None = None
    allowed_tools: _Allowed | None = None


Tools = list[_Tool] | None
Functions = list[_Function] | None
Choice = str | _Choice | None

_decode_tools = reader(Tools)
_decode_functions = reader(Functions)
_decode_choice = msgspec.json.Decoder(Choice).decode


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
    parameters = schema(function.parameters or {}, f"{field}.parameters")
    return Tool(
        name=function.name,
        description=function.description or "",
        parameters=parameters,
        strict=function.strict,
        extra=extra,
    )


tools_of = remembered(_read_tools)
"""The tools of the field `tools`. Raises Malformed."""

functions_of = remembered(_read_functions)
"""The tools of the old field `functions`. Raises Malformed."""


def chosen(raw: msgspec.Raw, tools: tuple[Tool, ...], field: str) -> tuple[str | None, tuple[Tool, ...]]:
    """The mode or the name of the tool to call, and the tools it leaves.

    Raises:
        Malformed: a choice of another kind, or of a tool that is not there.
    """
    choice = decoded(_decode_choice, raw, field)
    if choice is None:
        return None, tools
    if isinstance(choice, str):
        return mode(choice, field), tools
    if choice.type == "allowed_tools":
        if choice.allowed_tools is None:
            raise Malformed("this field is required", f"{field}.allowed_tools")
        names = [entry.function.name if entry.function is not None else "" for entry in choice.allowed_tools.tools]
        return allowed(names, choice.allowed_tools.mode, tools, f"{field}.allowed_tools")
    if choice.type != "function":
        raise Malformed(f"a choice of type {choice.type[:40]!r} is not supported", f"{field}.type")
    name = choice.function.name if choice.function is not None else choice.name
    return forced(name, tools, f"{field}.function.name"), tools


def mode(value: str, field: str) -> str:
    """The mode itself.

    Raises:
        Malformed: there is no such mode.
    """
    if value not in MODES:
        raise Malformed(f"{value[:40]!r} is not one of {', '.join(MODES)}", field)
    return value


def forced(name: str | None, tools: tuple[Tool, ...], field: str) -> str:
    """The name of the one tool to call.

    Raises:
        Malformed: it is not there, or its name could be taken for a mode.
    """
    if name is None or all(tool.name != name for tool in tools):
        raise Malformed(f"there is no tool named {(name or '')[:80]!r}", field)
    if name in MODES:
        raise Malformed(f"a tool named {name!r} cannot be asked for by name: rename it", field)
    return name


def allowed(names: list[str], wanted: str, tools: tuple[Tool, ...], field: str) -> tuple[str | None, tuple[Tool, ...]]:
    """The mode, and of the tools those that are named.

    Raises:
        Malformed: a name without a tool, or no such mode.
    """
    known = {tool.name for tool in tools}
    for place, name in enumerate(names):
        if name not in known:
            raise Malformed(f"there is no tool named {name[:80]!r}", f"{field}.tools[{place}]")
    return mode(wanted, f"{field}.mode"), tuple(tool for tool in tools if tool.name in names)
