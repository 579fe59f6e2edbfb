"""An expert's moves: what it does, on what it sees, once that is there.

    Move(when, at, tool) ─▶ looked for on the screen, with patience ─▶ the tool call, with the place where it was found

An expert acts as an agent does: by the names of the accessibility tree and by keys that the applications know.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.envs.gyms.desktop.display import Reply
from silva.envs.gyms.desktop.seeing import Sight
from silva.tree import Json, Record, ToolCall, call


class Move(Record, frozen=True, kw_only=True):
    """One call. `when`: what must be in sight first. `at`: the element whose middle (and `aside`) is clicked."""

    tool: str
    arguments: Json = msgspec.field(default_factory=dict[str, Any])
    when: Sight | None = None
    at: Sight | None = None
    aside: tuple[int, int] = (0, 0)

    def call(self, look: Reply) -> ToolCall | None:
        """The call, on what is seen; None as long as it cannot be made."""
        if self.when is not None and not self.when.there(look):
            return None
        if self.at is None:
            return call(self.tool, self.arguments)
        element = self.at.element(look)
        if element is None:
            return None
        x, y = element.middle
        return call(self.tool, {**self.arguments, "x": x + self.aside[0], "y": y + self.aside[1]})

    @property
    def waits_for(self) -> str:
        """What it needs, in words."""
        return " and ".join(str(each) for each in (self.when, self.at) if each is not None)


def seen(tag: str = "", name: str = "", **more: Any) -> Sight:
    """An element of that tag whose name holds some words."""
    return Sight(tag=tag, name=name, **more)


def window(title: str) -> Sight:
    """An active window whose title holds some words."""
    return Sight(window=title)


def click(at: Sight, when: Sight | None = None, tool: str = "click", aside: tuple[int, int] = (0, 0)) -> Move:
    """Click an element."""
    return Move(tool=tool, at=at, when=when, aside=aside)


def keys(*names: str, when: Sight | None = None) -> Move:
    """Press keys together."""
    if len(names) == 1:
        return Move(tool="press", arguments={"key": names[0]}, when=when)
    return Move(tool="hotkey", arguments={"keys": list(names)}, when=when)


def write(text: str, when: Sight | None = None) -> Move:
    """Type."""
    return Move(tool="typing", arguments={"text": text}, when=when)


def code(text: str, when: Sight | None = None) -> Move:
    """Run pyautogui code."""
    return Move(tool="pyautogui", arguments={"code": text}, when=when)


def pause(seconds: float, when: Sight | None = None) -> Move:
    """Wait."""
    return Move(tool="wait", arguments={"seconds": seconds}, when=when)
