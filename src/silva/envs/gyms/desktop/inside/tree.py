"""The accessibility tree of what shows on the screen: a flat list of elements, bounded in number and in time.

    AT-SPI: every application ─▶ its windows ─▶ what is showing, depth first ─▶ {tag, name, text, x, y, w, h, states}

Tables may have more cells than there are atoms (a sheet of Calc): of those that manage their descendants, only the
cells that are in sight are asked for. A program of its own (`helper`): an application that hangs may hang it too.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402
from helper import serve  # noqa: E402

MOST_TEXT = 600
"""Characters of an element's text."""
_CALL_MS = 800
_MOST_CHILDREN = 400
_MOST_ROWS, _MOST_COLUMNS = 60, 24
_BARE_ROWS, _BARE_CELLS = 5, 4
_TOLD = {
    "focused": Atspi.StateType.FOCUSED,
    "checked": Atspi.StateType.CHECKED,
    "selected": Atspi.StateType.SELECTED,
    "expanded": Atspi.StateType.EXPANDED,
    "active": Atspi.StateType.ACTIVE,
    "editable": Atspi.StateType.EDITABLE,
}
_MUTE = set(
    [
        "filler",
        "panel",
        "section",
        "scroll pane",
        "redundant object",
        "unknown",
        "root pane",
        "viewport",
        "separator",
        "table cell",
        "table",
        "split pane",
        "list",
        "tree table",
        "paragraph",
        "document frame",
        "icon",
    ]
)
"""Roles that tell nothing without a name or a text."""


class Tree:
    """Reads trees. One thread only."""

    def __init__(self) -> None:
        Atspi.init()
        Atspi.set_timeout(_CALL_MS, 4 * _CALL_MS)

    def elements(self, most: int, seconds: float, until: str = "") -> tuple[list[dict[str, Any]], bool]:
        """Elements in sight, and whether that is all of them (within `most` and `seconds`); `until`: an element
        of that tag is enough."""
        _let_news_in()
        reading = _Reading(most, time.monotonic() + seconds, until)
        desktop = Atspi.get_desktop(0)
        for number in range(_of(desktop.get_child_count, 0)):
            application = _of(lambda number=number: desktop.get_child_at_index(number), None)
            if application is None:
                continue
            reading.application = _of(application.get_name, "") or ""
            for window in _children(application):
                if not reading.window(window):
                    return reading.found, False
        return reading.found, True


class _Reading:
    def __init__(self, most: int, deadline: float, until: str) -> None:
        self.found: list[dict[str, Any]] = []
        self.application = ""
        self._most = most
        self._menu = 0
        self._deadline = deadline
        self._until = until

    def window(self, window: Any) -> bool:
        """Take in a window; False once there is no more room or time."""
        self._menu = 0
        return self.walk(window)

    def walk(self, node: Any, depth: int = 0, lower: int = 0) -> bool:
        """Take in a node and what is below, `lower` pixels below where it says it is; False once there is no more room
        or time."""
        if len(self.found) >= self._most or time.monotonic() > self._deadline:
            return False
        if self._until and self.found and self.found[-1]["tag"] == self._until:
            return False
        states = _of(node.get_state_set, None)
        if states is None or not states.contains(Atspi.StateType.SHOWING) or depth > 60:
            return True
        if not states.contains(Atspi.StateType.VISIBLE):
            return True
        element = _element(node, states)
        if element is not None:
            self._take(element, lower)
        if states.contains(Atspi.StateType.MANAGES_DESCENDANTS) and _of(node.get_child_count, 0) > _MOST_CHILDREN:
            return self._cells(node, lower)
        for child in _children(node):
            role = _of(child.get_role, None)
            down = lower
            # LibreOffice places all below its menu bar as if that were not there, and tells its menus twice.
            if role == Atspi.Role.MENU_BAR:
                if lower:
                    continue
                self._menu = _height(child)
            elif role == Atspi.Role.ROOT_PANE:
                down = lower or self._menu
            if not self.walk(child, depth + 1, down):
                return False
        return True

    def _take(self, element: dict[str, Any], lower: int) -> None:
        if element["tag"] == "static" and self.found and self.found[-1]["name"] == element["name"]:
            return  # what a page's link or heading says, once more
        element["application"] = self.application
        element["y"] += lower
        self.found.append(element)

    def _cells(self, table: Any, lower: int) -> bool:
        """The cells of a large table that are in sight and hold something, and the focused one.

        Every cell costs several round trips, so places are asked of the first row and column alone, and a stretch of
        empty cells or rows is taken for the end of what is there.
        """
        box = _of(lambda: table.get_extents(Atspi.CoordType.SCREEN), None)
        interface = _of(table.get_table_iface, None)
        if box is None or interface is None:
            return True
        first = _of(lambda: table.get_accessible_at_point(box.x + 3, box.y + 3, Atspi.CoordType.SCREEN), None)
        place = -1 if first is None else _of(first.get_index_in_parent, -1)
        row = _of(lambda: interface.get_row_at_index(place), -1) if place >= 0 else 0
        column = _of(lambda: interface.get_column_at_index(place), -1) if place >= 0 else 0
        columns = list(self._line(interface, box, row, column, across=True))
        bare = 0
        for down, _, y, height in self._line(interface, box, row, column, across=False):
            held = skipped = 0
            for _, across, x, width in columns:
                if len(self.found) >= self._most or time.monotonic() > self._deadline:
                    return False
                cell = _of(lambda down=down, across=across: interface.get_accessible_at(down, across), None)
                text = "" if cell is None else _text(cell)
                if cell is not None and text:
                    name = _of(cell.get_name, "") or ""
                    at = _Box(x, y, width, height)
                    self._take(_row("table-cell", name, text, at, []), lower)
                    held, skipped = held + 1, 0
                else:
                    skipped += 1
                    if skipped > _BARE_CELLS:
                        break
            bare = 0 if held else bare + 1
            if bare > _BARE_ROWS:
                break
        return True

    def _line(self, interface: Any, box: Any, row: int, column: int, *, across: bool) -> Iterator[tuple[int, ...]]:
        """The first row's cells in sight (`across`: row, column, x, width), or the first column's (y, height)."""
        for step in range(_MOST_COLUMNS if across else _MOST_ROWS):
            place = (row, column + step) if across else (row + step, column)
            cell = _of(lambda place=place: interface.get_accessible_at(*place), None)
            at = None if cell is None else _of(lambda cell=cell: cell.get_extents(Atspi.CoordType.SCREEN), None)
            if at is None or (at.x >= box.x + box.width if across else at.y >= box.y + box.height):
                return
            yield (*place, at.x, at.width) if across else (*place, at.y, at.height)


class _Box:
    def __init__(self, x: int, y: int, width: int, height: int) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height


def _element(node: Any, states: Any) -> dict[str, Any] | None:
    role = _of(node.get_role_name, "") or ""
    name = _of(node.get_name, "") or ""
    text = _text(node)
    if role in _MUTE and not (name.strip() or text.strip()):
        return None
    if not (name or text or states.contains(Atspi.StateType.FOCUSABLE)):
        return None
    box = _of(lambda: node.get_extents(Atspi.CoordType.SCREEN), None)
    if box is None or box.width <= 0 or box.height <= 0:
        return None
    told = [word for word, state in _TOLD.items() if states.contains(state)]
    if not states.contains(Atspi.StateType.SENSITIVE) and not states.contains(Atspi.StateType.ENABLED):
        told.append("disabled")
    return _row(role.replace(" ", "-"), name, text, box, told)


def _row(tag: str, name: str, text: str, box: Any, states: list[str]) -> dict[str, Any]:
    return {
        "tag": tag,
        "name": name[:MOST_TEXT],
        "text": "" if text == name else text,
        "x": box.x,
        "y": box.y,
        "w": box.width,
        "h": box.height,
        "states": states,
    }


def _text(node: Any) -> str:
    interface = _of(node.get_text_iface, None)
    if interface is None:
        return ""
    # LibreOffice raises for an end beyond the end.
    length = min(_of(lambda: Atspi.Text.get_character_count(interface), 0), MOST_TEXT)
    text = _of(lambda: Atspi.Text.get_text(interface, 0, length), "") if length > 0 else ""
    text = text or ""
    return text.replace("\ufffc", "").strip("\n")


def _height(node: Any) -> int:
    box = _of(lambda: node.get_extents(Atspi.CoordType.SCREEN), None)
    return 0 if box is None else box.height


def _children(node: Any) -> Iterator[Any]:
    for number in range(min(_of(node.get_child_count, 0), _MOST_CHILDREN)):
        child = _of(lambda number=number: node.get_child_at_index(number), None)
        if child is not None:
            yield child


def _of(call: Any, otherwise: Any) -> Any:
    """What an application answers; `otherwise` where it does not, has gone, or hangs."""
    try:
        return call()
    except GLib.Error:
        return otherwise


def _let_news_in() -> None:
    context = GLib.MainContext.default()
    for _ in range(1000):
        if not context.iteration(False):
            return


def main() -> None:
    """Answer the driver."""
    tree = Tree()

    def read(channel: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
        elements, whole = tree.elements(int(asked["most"]), float(asked["seconds"]), str(asked["until"]))
        return {"elements": elements, "whole": whole}

    serve(read)


if __name__ == "__main__":
    main()
