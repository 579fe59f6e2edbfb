"""The tools of an Anthropic body, and which of them the model may or must call."""

from __future__ import annotations

import msgspec

from silva.models.carried import Open
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.offered import Chosen, Described, forced, tool
from silva.models.gateway.dialects.reading import Name, decoded, distinct, reader, remembered
from silva.models.gateway.dialects.schema import schema
from silva.tree import Json, Tool

_MODES = {"auto": "auto", "any": "required", "none": "none"}


class _Tool(Described):
    type: str | None = None
    input_schema: Json | None = None


class _Choice(Open):
    type: str
    name: Name | None = None
    disable_parallel_tool_use: bool | None = None


Tools = list[_Tool] | None
Choice = _Choice | None

_decode_tools = reader(Tools)
_decode_choice = reader(Choice)


def _read(data: bytes) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for place, entry in enumerate(decoded(_decode_tools, data, "tools") or ()):
        if entry.type not in (None, "custom"):
            raise Malformed(
                f"the tool {entry.type[:40]!r} is the provider's own and is not there: send tools with an input_schema",
                f"tools[{place}].type",
            )
        if entry.input_schema is None:
            raise Malformed("this field is required", f"tools[{place}].input_schema")
        parameters = schema(entry.input_schema, f"tools[{place}].input_schema")
        tools.append(tool(entry, parameters, entry.extra))
    return distinct(tuple(tools), "tools")


tools_of = remembered(_read)
"""The tools of the field `tools`. Raises Malformed."""


def chosen(raw: msgspec.Raw, tools: tuple[Tool, ...]) -> Chosen:
    """What `tool_choice` says.

    Raises:
        Malformed: a choice of another kind, or of a tool that is not there.
    """
    choice = decoded(_decode_choice, raw, "tool_choice")
    if choice is None:
        return Chosen(None, tools)
    if choice.type == "tool":
        wanted = forced(choice.name, tools, "tool_choice.name")
    elif choice.type in _MODES:
        wanted = _MODES[choice.type]
    else:
        raise Malformed(f"{choice.type[:40]!r} is not one of auto, any, tool, none", "tool_choice.type")
    return Chosen(wanted, tools, choice.extra, single=bool(choice.disable_parallel_tool_use))
