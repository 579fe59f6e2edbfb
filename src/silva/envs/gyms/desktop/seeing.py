"""What an agent is shown: windows, and the accessibility tree as a table; and how an expert finds things in it.

    Reply (elements, windows) ─▶ table ─▶ text, bounded         Sight ─▶ found(Reply) ─▶ Element

The columns are OSWorld's: tag, name, text, position of the upper left corner, size. States are added.
"""

from __future__ import annotations

from silva.envs.gyms.desktop.display import Element, Reply
from silva.tree import Record

MOST_ELEMENTS = 400
MOST_CHARACTERS = 24_000
_MOST_CELL = 200
OBSERVATIONS = ("screenshot", "a11y_tree", "screenshot_a11y_tree")
"""What may be observed, as OSWorld names it."""


class Sight(Record, frozen=True, kw_only=True):
    """Something to be seen: an element of a tag with a name or text that holds some words, or a window's title.

    `exactly`: the name is just these words. `window`: a window's title holds these, and it is the active one.
    """

    tag: str = ""
    name: str = ""
    text: str = ""
    window: str = ""
    exactly: bool = False
    gone: bool = False

    def there(self, look: Reply) -> bool:
        """Whether it is in sight (for `gone`: is not)."""
        return (self.element(look) is not None if self.tag else self._window(look)) != self.gone

    def element(self, look: Reply) -> Element | None:
        """The first such element; None where there is none, or another window is active."""
        if self.window and not self._window(look):
            return None
        for each in look.elements:
            named = each.name == self.name if self.exactly else self.name.lower() in each.name.lower()
            held = self.text.lower() in (each.text or each.name).lower()
            if each.tag == self.tag and named and held and "disabled" not in each.states:
                return each
        return None

    def _window(self, look: Reply) -> bool:
        return any(self.window in each.title and each.active for each in look.windows)

    def __str__(self) -> str:
        what = f"{self.tag} {self.name or self.text!r}" if self.tag else ""
        where = f"the active window {self.window!r}" if self.window else ""
        return f"{' in '.join(word for word in (what, where) if word)}{' gone' if self.gone else ''}"


def table(look: Reply, most: int = MOST_CHARACTERS) -> str:
    """The windows and the tree as text of at most so many characters."""
    titles = [f"{each.title}{' (active)' if each.active else ''}" for each in reversed(look.windows)]
    lines = [f"windows, the uppermost first: {' | '.join(titles) or 'none'}", "tag\tname\ttext\tposition\tsize\tstates"]
    room = most - sum(map(len, lines))
    left = 0
    for number, each in enumerate(look.elements):
        cells = (each.tag, _cell(each.name), _cell(each.text), f"({each.x}, {each.y})", f"({each.w}, {each.h})")
        line = "\t".join((*cells, " ".join(each.states))).rstrip()
        room -= len(line) + 1
        if room < 0:
            left = len(look.elements) - number
            break
        lines.append(line)
    if left:
        lines.append(f"[{left} more elements]")
    elif not look.whole:
        lines.append("[there are more elements]")
    return "\n".join(lines)


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_CELL else f"{flat[: _MOST_CELL - 1]}…"
