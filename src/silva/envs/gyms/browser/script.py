"""What a scripted expert works with: the goal in words, the page as the agent reads it, and a memory of its own.

    Scene ─▶ an expert (a plain function) ─▶ the next call

Experts see the reading and nothing else of the page: what they can do, an agent can.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from silva.envs.gyms.browser.reading import Element, Reading
from silva.tree import ToolCall, call


class Scene:
    """One moment of an episode. `memory` lasts for the episode."""

    def __init__(self, goal: str, reading: Reading, memory: dict[str, Any]) -> None:
        self.goal = goal
        self.reading = reading
        self.memory = memory

    def element(self, role: str | None = None, name: str | None = None, near: str | None = None) -> Element:
        """The first such element (`Reading.find`).

        Raises:
            LookupError: there is none.
        """
        found = self.reading.find(role, name, near)
        if found is None:
            raise LookupError(f"the expert finds no {role or 'element'} {name!r} on {self.reading.url}")
        return found

    def quoted(self) -> list[str]:
        """What stands in double quotes in the goal."""
        return re.findall(r'"([^"]*)"', self.goal)

    def taken(self, pattern: str) -> str:
        """The first group of `pattern` in the goal.

        Raises:
            LookupError: it does not match.
        """
        found = re.search(pattern, self.goal)
        if found is None:
            raise LookupError(f"the expert does not understand {self.goal!r}")
        return found.group(1)


Expert: TypeAlias = Callable[[Scene], ToolCall]


def click(element: Element) -> ToolCall:
    """Click it."""
    return call("click", {"element": element.number})


def fill(element: Element, text: str, enter: bool = False) -> ToolCall:
    """Put text into it."""
    return call("type", {"element": element.number, "text": text, **({"enter": True} if enter else {})})


def choose(element: Element, *options: str) -> ToolCall:
    """Choose options of it."""
    return call("select", {"element": element.number, "options": list(options)})


def goto(url: str) -> ToolCall:
    """Open it."""
    return call("goto", {"url": url})


def finish(answer: str = "") -> ToolCall:
    """End the task."""
    return call("finish", {"answer": answer} if answer else {})
