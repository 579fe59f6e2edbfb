"""A page as an agent reads it: its visible text in order, and its interactive elements, numbered.

    page ─▶ reading.js, in the page ─▶ Reading(url, title, lines) ─▶ str(reading)
                 └─▶ the elements themselves, kept in the page ─▶ Reading.handle(number)

Interactive is what the browser makes so (links, buttons, fields), what says so (a role, a tabindex), and what listens
for clicks: pages of spans with listeners are common, so `LISTENERS`, installed before any script of the page, notes
who listens. Numbers hold until the page is read again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from silva.tree import Record

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, JSHandle, Page

LONGEST = 20_000
"""Characters of a page that are shown."""

LISTENERS = """(() => {
  const listening = new WeakSet();
  const add = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    const clicks = ['click', 'mousedown', 'mouseup', 'pointerdown'];
    if (this instanceof Element && clicks.includes(kind)) listening.add(this);
    return add.call(this, kind, ...rest);
  };
  Object.defineProperty(window, '__silvaListening', { value: listening, enumerable: false });
})()"""

_SCRIPT = Path(__file__).with_name("reading.js").read_text(encoding="utf-8")


class Element(Record, frozen=True, kw_only=True):
    """One interactive element. `value` is a field's; `options` a list's; the states are None where it has no such."""

    number: int
    role: str
    name: str = ""
    value: str | None = None
    options: tuple[str, ...] = ()
    checked: bool | None = None
    selected: bool | None = None
    expanded: bool | None = None
    disabled: bool = False
    focused: bool = False

    def __str__(self) -> str:
        said = f'[{self.number}] {self.role} "{self.name}"'
        if self.value is not None:
            said += f' = "{self.value}"'
        if self.options:
            said += f" of {' | '.join(self.options)}"
        states = {"checked": self.checked, "selected": self.selected, "expanded": self.expanded}
        marks = [name if state else f"not {name}" for name, state in states.items() if state is not None]
        marks += ["disabled"] * self.disabled + ["focused"] * self.focused
        return said + (f" ({', '.join(marks)})" if marks else "")


class Reading:
    """A page at one moment."""

    def __init__(self, url: str, title: str, lines: list[str | Element], made: JSHandle | None = None) -> None:
        self.url = url
        self.title = title
        self.lines = lines
        self._made = made

    @property
    def elements(self) -> list[Element]:
        """The interactive ones, in the page's order; the first has number 1."""
        return [line for line in self.lines if isinstance(line, Element)]

    @property
    def text(self) -> list[str]:
        """The lines that are text alone."""
        return [line for line in self.lines if isinstance(line, str)]

    def find(self, role: str | None = None, name: str | None = None, near: str | None = None) -> Element | None:
        """The first element of that role and name, past the first line that contains `near`; None: there is none."""
        past = near is None
        for line in self.lines:
            if not past:
                past = near in (line if isinstance(line, str) else line.name)  # type: ignore[operator]
                if isinstance(line, str) or not past:
                    continue
            if isinstance(line, Element) and role in (None, line.role) and name in (None, line.name):
                return line
        return None

    def all(self, role: str) -> list[Element]:
        """Every element of that role."""
        return [element for element in self.elements if element.role == role]

    async def handle(self, number: int) -> ElementHandle | None:
        """The element in the page; None where no element has that number."""
        if self._made is None:
            return None
        found = await self._made.evaluate_handle("(made, number) => made.elements[number - 1]", number)
        return found.as_element()

    def __str__(self) -> str:
        body = "\n".join(map(str, self.lines))
        if len(body) > LONGEST:
            body = body[:LONGEST] + f"\n… {len(body) - LONGEST} more characters"
        return f"Page: {self.title or 'untitled'} ({self.url})\n{body or '(empty)'}"


async def read(page: Page) -> Reading:
    """Read the page as it is."""
    made = await page.evaluate_handle(_SCRIPT)
    facts: dict[str, Any] = await made.evaluate("({url, title, lines}) => ({url, title, lines})")
    lines: list[str | Element] = [
        line["text"] if "text" in line else Element(**{**line, "options": tuple(line.get("options", ()))})
        for line in facts["lines"]
    ]
    return Reading(facts["url"], facts["title"], lines, made)
