"""The tools that a client offers, and which of them the model may or must call: what all APIs have in common.

an entry ─▶ Described ─▶ tool ─▶ Tool (what else it says in its `extra`)
a choice ─▶ mode │ forced │ allowed ─▶ Chosen (likewise)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from silva.models.carried import Open
from silva.models.gateway.dialects.dialect import Malformed
from silva.models.gateway.dialects.reading import Name
from silva.tree import Json, Tool

MODES = ("auto", "none", "required")


class Described(Open):
    """An entry of a tool."""

    name: Name
    description: str | None = None
    strict: bool | None = None


def tool(entry: Described, parameters: Json, extra: Json | None) -> Tool:
    """The tool of an entry."""
    about = entry.description or ""
    return Tool(name=entry.name, description=about, parameters=parameters, strict=entry.strict, extra=extra)


class Chosen(NamedTuple):
    """A choice: the mode or the name of the one tool to call, the tools it leaves, what else it says (which goes on
    where the backend speaks the same API, except for what is `left_out`), and whether calls come one at a time."""

    mode: str | None
    tools: tuple[Tool, ...]
    extra: Json | None = None
    left_out: tuple[str, ...] = ()
    single: bool = False

    @property
    def passed_on(self) -> Json:
        """What goes on among the options of sampling."""
        return {"tool_choice": self.extra} if self.extra and self.tools else {}


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


def allowed(
    names: list[str], wanted: str, tools: tuple[Tool, ...], field: str, extras: Iterable[Json | None]
) -> Chosen:
    """The mode, and of the tools those that are named. A backend is offered these alone, so that what else is said of
    them has no place any more: it is told as left out.

    Raises:
        Malformed: a name without a tool, or no such mode.
    """
    known = {tool.name for tool in tools}
    for place, name in enumerate(names):
        if name not in known:
            raise Malformed(f"there is no tool named {name[:80]!r}", f"{field}.tools[{place}]")
    left = tuple(tool for tool in tools if tool.name in names)
    beside = dict.fromkeys(f"{field}.{name}" for extra in extras for name in extra or ())
    return Chosen(mode(wanted, f"{field}.mode"), left, left_out=tuple(beside))
