"""All tools there are: Silva's own, those of packages, and assets that a person has promoted.

silva.elf.tools.* ─┐
entry points `silva.elf` (a package's Tool) ─┼─▶ Toolbox: by name; by what they give; near names
assets of the engine's home ─┘
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from dataclasses import replace
from importlib import metadata
from types import ModuleType

from msgspec import structs

from silva.elf.tool import Card, Tool
from silva.errors import UsageError

GROUP = "silva.elf"
"""The group of entry points that name a `Tool`."""

OWN = (
    "asking",
    "reading",
    "shaping",
    "writing",
    "runs",
    "sets",
    "attacks",
    "auditing",
    "valuing",
    "learning",
    "science",
    "releasing",
)
"""The modules of `silva.elf.tools`."""


class Toolbox:
    """Tools by name.

    Args:
        tools: which.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: dict[str, Tool] = {}
        for each in tools:
            if each.card.name in self.tools:
                raise UsageError(
                    f"tools: {each.card.name} is there twice (of {each.card.origin} and of "
                    f"{self.tools[each.card.name].card.origin}); rename one"
                )
            self.tools[each.card.name] = each

    @property
    def cards(self) -> dict[str, Card]:
        """The card of each tool."""
        return {name: tool.card for name, tool in self.tools.items()}

    def tool(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            UsageError: there is none.
        """
        if name not in self.tools:
            raise UsageError(f"there is no tool {name!r}{self.near(name)}")
        return self.tools[name]

    def near(self, name: str) -> str:
        """What to say of names that are near one that is not there."""
        near = difflib.get_close_matches(name, self.tools, 3, 0.5)
        return f"; near are {', '.join(near)}" if near else "; see silva elf tools"


def own() -> list[Tool]:
    """Silva's own tools."""
    return [each for name in OWN for each in of_module(importlib.import_module(f"silva.elf.tools.{name}"))]


def packaged() -> list[Tool]:
    """Tools of packages.

    Raises:
        UsageError: one cannot be loaded, or is no tool.
    """
    found: list[Tool] = []
    for point in metadata.entry_points(group=GROUP):
        try:
            made = point.load()
        except Exception as error:
            text = " ".join(str(error).split())
            raise UsageError(f"tools: {point.value} cannot be loaded: {type(error).__name__}: {text}") from error
        if not isinstance(made, Tool):
            raise UsageError(f"tools: {point.value} is no tool; make it with silva.elf.tool.tool")
        origin = point.dist.name if point.dist is not None else point.value
        found.append(replace(made, card=structs.replace(made.card, origin=origin)))
    return found


def of_module(module: ModuleType) -> list[Tool]:
    """The tools that a module makes, in their order."""
    found = [each for each in vars(module).values() if isinstance(each, Tool)]
    return [each for each in found if each.call.__module__ == module.__name__]
