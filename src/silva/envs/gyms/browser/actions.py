"""The tools of the browser gym, and how each is carried out on a page.

    ToolCall ─▶ Hands.do ─▶ Playwright ─▶ settled ─▶ what to say: an error in words, or nothing

Whether an element lets itself be acted on is seen at once and not waited for, so that the answer depends on the page
and not on the speed of the machine. After an action the page draws, and what it navigates to loads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import ElementHandle, Page
from playwright.async_api import Error as PlaywrightError

from silva.envs.gyms.browser.chromium import Tab
from silva.envs.gyms.browser.reading import Reading, read
from silva.tree import Json, Tool

PATIENCE_MS = 20_000
"""How long the browser may take over one thing, in milliseconds; a busy machine must not change what comes of it."""
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(document.readyState), 0)))"
_HINDRANCE = """e => {
  if (!e.isConnected) return 'it is no longer on the page';
  if (e.disabled) return 'it is disabled';
  e.scrollIntoViewIfNeeded();
  const [box] = e.getClientRects();
  if (!box || !box.width || !box.height || !e.checkVisibility({visibilityProperty: true})) return 'it is not visible';
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  if (!top || top.contains(e) || e.contains(top) || [...(e.labels ?? [])].some(l => l.contains(top))) return null;
  return `it is covered by ${top.tagName.toLowerCase()}${top.id ? '#' + top.id : ''}`;
}"""
_ELEMENT: Json = {"type": "integer", "description": "the element's number in the last reading"}


def _tool(name: str, description: str, required: tuple[str, ...] = (), **properties: Json) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": list(required)},
    )


TOOLS: tuple[Tool, ...] = (
    _tool("goto", "Open an address.", ("url",), url={"type": "string"}),
    _tool(
        "click",
        "Click an element, or the point x, y of the window.",
        element=_ELEMENT,
        x={"type": "number"},
        y={"type": "number"},
    ),
    _tool(
        "type",
        "Put text into a field, in place of what it holds; enter presses Enter after it.",
        ("element", "text"),
        element=_ELEMENT,
        text={"type": "string"},
        enter={"type": "boolean", "default": False},
    ),
    _tool(
        "select",
        "Choose options of a list, by their text.",
        ("element", "options"),
        element=_ELEMENT,
        options={"type": "array", "items": {"type": "string"}},
    ),
    _tool(
        "press",
        "Press a key, as Enter, Tab, ArrowDown or Control+a, on an element or where the focus is.",
        ("key",),
        key={"type": "string"},
        element=_ELEMENT,
    ),
    _tool(
        "scroll",
        "Scroll the page, or an element into view.",
        direction={"type": "string", "enum": ["up", "down"]},
        element=_ELEMENT,
    ),
    _tool("back", "Go back to the page before."),
    _tool("read", "Read the page again."),
    _tool("finish", "End the task, with an answer where one was asked for.", answer={"type": "string"}),
)
SCREENSHOT = _tool("screenshot", "See the window as a picture.")


class Mistake(Exception):
    """A call that cannot be carried out; the text says why and goes to the agent."""


class Hands:
    """Carries out calls on a tab. `hosts` are the names that goto may lead to."""

    def __init__(self, tab: Tab, hosts: frozenset[str]) -> None:
        self._tab = tab
        self._hosts = hosts

    async def do(self, name: str, arguments: Json, reading: Reading) -> None:
        """Carry out one call and wait until the page has settled.

        Raises:
            Mistake: it cannot be done; the page is as it was, or as the page itself made it.
        """
        act = getattr(self, f"_{name}", None)
        if act is None:
            raise Mistake(f"there is no tool {name!r}; there are {', '.join(tool.name for tool in TOOLS)}")
        try:
            await act(arguments, reading)
        except PlaywrightError as error:
            raise Mistake(_plain(error)) from error
        finally:
            await settled(self._tab)

    @property
    def _page(self) -> Page:
        return self._tab.page

    async def _goto(self, arguments: Json, reading: Reading) -> None:
        url = _given(arguments, "url", str)
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            name, port = parts.hostname, parts.port
        except ValueError as error:
            raise Mistake(f"{url!r} is no address") from error
        if parts.scheme != "http" or name not in self._hosts or port not in (None, 80):
            raise Mistake(f"goto leads only to {', '.join(f'http://{host}/' for host in sorted(self._hosts))}")
        await self._page.goto(parts.geturl(), timeout=PATIENCE_MS)

    async def _click(self, arguments: Json, reading: Reading) -> None:
        if "element" not in arguments and {"x", "y"} <= arguments.keys():
            await self._page.mouse.click(_given(arguments, "x", float), _given(arguments, "y", float))
            return
        element = await self._element(arguments, reading)
        await element.click(timeout=PATIENCE_MS)

    async def _type(self, arguments: Json, reading: Reading) -> None:
        text = _given(arguments, "text", str)
        element = await self._element(arguments, reading)
        if await element.evaluate("e => ['date', 'time', 'color', 'month', 'week', 'range'].includes(e.type)"):
            await element.fill(text, timeout=PATIENCE_MS)
        else:
            await element.fill("", timeout=PATIENCE_MS)
            await element.type(text, timeout=PATIENCE_MS)
        if _given(arguments, "enter", bool, False):
            await element.press("Enter", timeout=PATIENCE_MS, no_wait_after=True)

    async def _select(self, arguments: Json, reading: Reading) -> None:
        wanted = _given(arguments, "options", list)
        element = await self._element(arguments, reading)
        known = await element.evaluate("e => e.tagName === 'SELECT' ? [...e.options].map(o => o.text.trim()) : null")
        if known is None:
            raise Mistake("that element is no list with options")
        missing = [option for option in wanted if option not in known]
        if missing:
            raise Mistake(f"it has no option {missing[0]!r}; it has {', '.join(map(repr, known))}")
        await element.select_option(label=wanted, timeout=PATIENCE_MS)

    async def _press(self, arguments: Json, reading: Reading) -> None:
        key = _given(arguments, "key", str)
        if "element" in arguments:
            await (await self._element(arguments, reading)).press(key, timeout=PATIENCE_MS)
        else:
            await self._page.keyboard.press(key)

    async def _scroll(self, arguments: Json, reading: Reading) -> None:
        if "element" in arguments:
            await (await self._element(arguments, reading)).scroll_into_view_if_needed(timeout=PATIENCE_MS)
            return
        sign = -1 if arguments.get("direction") == "up" else 1
        await self._page.evaluate("sign => window.scrollBy(0, sign * innerHeight * 0.8)", sign)

    async def _back(self, arguments: Json, reading: Reading) -> None:
        if await self._page.evaluate("() => history.length") < 3:  # about:blank, and the page the task began on
            raise Mistake("there is no page to go back to")
        await self._page.go_back(timeout=PATIENCE_MS)

    async def _read(self, arguments: Json, reading: Reading) -> None:
        pass

    _screenshot = _read

    async def _element(self, arguments: Json, reading: Reading) -> ElementHandle:
        number = _given(arguments, "element", int)
        known = len(reading.elements)
        found = await reading.handle(number) if 1 <= number <= known else None
        if found is None:
            raise Mistake(f"there is no element {number}; the page has {f'1 to {known}' if known else 'none'}")
        hindrance = await found.evaluate(_HINDRANCE)
        if hindrance is not None:
            raise Mistake(f"element {number} cannot be used: {hindrance}")
        return found


async def settled(tab: Tab) -> None:
    """Wait until the page has drawn and nothing it navigates to is still loading."""
    for _ in range(8):
        page = tab.page
        try:
            if await page.evaluate(_DRAWN) == "complete" and page is tab.page:
                return
            await page.wait_for_load_state("load", timeout=PATIENCE_MS)
        except PlaywrightError:
            continue  # it went to another page meanwhile


async def read_settled(tab: Tab) -> Reading:
    """Read the page, once more where it went to another one meanwhile."""
    for _ in range(4):
        try:
            return await read(tab.page)
        except PlaywrightError:
            await settled(tab)
    return await read(tab.page)


def _given(arguments: Json, name: str, kind: Callable[..., Any], default: Any = None) -> Any:
    value = arguments.get(name, default)
    good = isinstance(value, int | float) if kind is float else isinstance(value, kind)  # type: ignore[arg-type]
    if not good or (isinstance(value, bool) and kind in (int, float)):
        said = {int: "a whole number", float: "a number", str: "text", bool: "true or false", list: "a list"}[kind]
        raise Mistake(f"give {name}: {said}")
    return value


def _plain(error: PlaywrightError) -> str:
    """The first line of what Playwright says, and what stood in the way where it says so."""
    lines = [line.strip(" -") for line in str(error.message).splitlines() if line.strip()]
    first = lines[0].partition(": ")[2] or lines[0]
    why = next((line for line in lines if "intercepts pointer events" in line or "not visible" in line), "")
    why = why or next((line for line in lines if "not enabled" in line or "not editable" in line), "")
    if "net::ERR" in first:
        first = "the page cannot be opened"
    return f"{first}{f' ({why})' if why else ''}"[:300]
