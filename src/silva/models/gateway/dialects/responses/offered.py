"""The tools of a Responses body: functions, and the other kinds that a client runs itself.

function    ─▶ Tool                                        ◀─ function_call
custom      ─▶ Tool with one text argument, `input`        ◀─ custom_tool_call
local_shell ─▶ Tool named local_shell with the shell's own ◀─ local_shell_call
               arguments
namespace   ─▶ a Tool for each of its functions, both     ◀─ function_call with its namespace
               names in one (Codex has MCP's tools so)
others      ─▶ Tool of its kind's name, as it was written      (a provider runs it: only a backend of this API has it)
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.carried import Open
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.offered import Chosen, allowed, forced, mode
from silva.models.gateway.dialects.reading import Name, decoded, distinct, named, plain, reader, remembered
from silva.models.gateway.dialects.responses.marks import ITEM, NAMESPACE, inside, mark_of
from silva.models.gateway.dialects.schema import schema
from silva.tree import Json, Tool

SHELL = "local_shell"

INPUT: Json = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The parameters of a custom tool."""

_TEXT = {"type": "string"}
_SHELL_TOOL = Tool(
    name=SHELL,
    description="Runs a command on the user's machine and returns its output.",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": _TEXT, "description": "The command and its arguments."},
            "working_directory": _TEXT,
            "timeout_ms": {"type": "integer"},
            "env": {"type": "object", "additionalProperties": _TEXT},
        },
        "required": ["command"],
    },
)


class _Format(msgspec.Struct):
    type: str = "text"
    syntax: str | None = None
    definition: str | None = None


class _Tool(Open):
    type: str
    name: Name | None = None
    description: str | None = None
    parameters: Json | None = None
    format: _Format | None = None
    strict: bool | None = None


class _Reference(Open):
    type: str
    name: Name | None = None


class _Choice(Open):
    type: str
    name: Name | None = None
    mode: str = "auto"
    tools: list[_Reference] | None = None


Native = tuple[str, str]
"""What only a backend of this API can be told: its place in the body, and the words it is refused with elsewhere."""


class Offered(msgspec.Struct, frozen=True):
    """The tools, which of them are custom, how they were written, which of them a provider runs itself, and of those in
    a namespace its name and their own."""

    tools: tuple[Tool, ...] = ()
    custom: tuple[str, ...] = ()
    shell: bool = False
    written: tuple[Any, ...] = ()
    native: tuple[Native, ...] = ()
    spaces: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict[str, tuple[str, str]])


class _Kind(msgspec.Struct):
    type: str


Choice = str | _Choice | None

_decode_tool = reader(_Tool)
_decode_kinds = msgspec.json.Decoder(list[_Kind] | None).decode
_encode = msgspec.json.Encoder().encode
_decode_written = msgspec.json.Decoder(tuple[Any, ...] | None).decode
_decode_choice = reader(Choice)


def _read(data: bytes) -> Offered:
    tools: list[Tool] = []
    custom: list[str] = []
    shell = False
    native: list[Native] = []
    spaces: dict[str, tuple[str, str]] = {}
    written = plain(list(decoded(_decode_written, data, "tools") or ()), "tools")
    for place, (entry, whole) in enumerate(zip(decoded(_decode_kinds, data, "tools") or (), written, strict=True)):
        if entry.type == SHELL:
            shell = True
            tools.append(msgspec.structs.replace(_SHELL_TOOL, extra={ITEM: whole}))
            continue
        if entry.type == NAMESPACE and (held := _held(whole, f"tools[{place}]")):
            tools += [tool for tool, _ in held]
            spaces |= {tool.name: (whole["name"], own) for tool, own in held}
            continue
        if entry.type not in ("function", "custom"):
            words = f"the tool {entry.type[:40]!r} runs at the provider and is not there: send functions"
            native.append((f"tools[{place}].type", words))
            tools.append(Tool(name=_labelled(whole), extra={ITEM: whole}))
            continue
        entry = decoded(_decode_tool, _encode(whole), f"tools[{place}]")
        if entry.name is None:
            raise Malformed("this field is required", f"tools[{place}].name")
        if entry.type == "custom":
            custom.append(entry.name)
            extra = {**(entry.extra or {}), ITEM: whole}
            tools.append(Tool(name=entry.name, description=_described(entry), parameters=INPUT, extra=extra))
        else:
            parameters = schema(entry.parameters or {}, f"tools[{place}].parameters")
            words = entry.description or ""
            tools.append(
                Tool(name=entry.name, description=words, parameters=parameters, strict=entry.strict, extra=entry.extra)
            )
    listed = distinct(tuple(tools), "tools")
    return Offered(
        tools=listed, custom=tuple(custom), shell=shell, written=tuple(written), native=tuple(native), spaces=spaces
    )


def _held(whole: Json, field: str) -> list[tuple[Tool, str]]:
    """The functions of a namespace, each with its own name; the first keeps how all was written. None where it holds
    anything else, which only a backend of this API knows."""
    space, entries = whole.get("name"), whole.get("tools")
    if not (isinstance(space, str) and space and isinstance(entries, list) and entries):
        return []
    found: list[tuple[Tool, str]] = []
    for place, each in enumerate(entries):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        at = f"{field}.tools[{place}]"
        entry = decoded(_decode_tool, _encode(each), at)
        if entry.type != "function" or entry.name is None:
            return []
        tool = Tool(
            name=named(inside(space, entry.name), f"{at}.name"),
            description=entry.description or "",
            parameters=schema(entry.parameters or {}, f"{at}.parameters"),
            strict=entry.strict,
            extra={ITEM: whole if not found else {"type": NAMESPACE, "name": space}},
        )
        found.append((tool, entry.name))
    return found


def _labelled(whole: Json) -> str:
    """What tells a tool that a provider runs from the others."""
    for name in ("name", "server_label", "type"):
        if isinstance(whole.get(name), str) and whole[name]:
            return named(whole[name], "tools")
    return ""


def _described(entry: _Tool) -> str:
    words = entry.description or ""
    grammar = entry.format
    if grammar is None or grammar.definition is None:
        return words
    return f"{words}\n\nThe input follows this {grammar.syntax or ''} grammar:\n{grammar.definition}".strip()


offered = remembered(_read)
"""The tools of the field `tools`. Raises Malformed."""


def chosen(raw: msgspec.Raw, tools: tuple[Tool, ...]) -> Chosen:
    """What `tool_choice` says; of a kind that a provider runs, the first is meant.

    Raises:
        Malformed: a choice of another kind, or of a tool that is not there.
    """
    choice = decoded(_decode_choice, raw, "tool_choice")
    if choice is None:
        return Chosen(None, tools)
    if isinstance(choice, str):
        return Chosen(mode(choice, "tool_choice"), tools)
    if choice.type == "allowed_tools":
        names = [entry.name or _of_kind(entry.type, tools) for entry in choice.tools or ()]
        extras = (choice.extra, *(entry.extra for entry in choice.tools or ()))
        return allowed(names, choice.mode, tools, "tool_choice", extras)
    if choice.type not in ("function", "custom"):
        if found := _of_kind(choice.type, tools):
            return Chosen(found, tools, choice.extra)
        raise Malformed(f"a choice of type {choice.type[:40]!r} is not supported", "tool_choice.type")
    return Chosen(forced(choice.name, tools, "tool_choice.name"), tools, choice.extra)


def _of_kind(kind: str, tools: tuple[Tool, ...]) -> str:
    """The name of the first tool that was offered by its kind alone, "" for none."""
    return next((tool.name for tool in tools if mark_of(tool.extra).get("type") == kind), "")
