"""Experts for MiniWoB++ pages that must be looked through: tabs, sections, trees, tables, results."""

from __future__ import annotations

import re

from silva.envs.gyms.browser.miniwob_forms import filled, submit
from silva.envs.gyms.browser.script import Expert, Scene, click, fill
from silva.tree import ToolCall


def tab(scene: Scene) -> ToolCall:
    """Click the tab that is named."""
    return click(scene.element("link", scene.taken(r"(Tab #\d)")))


def _through(scene: Scene, role: str) -> ToolCall:
    """Open one part after the other until what is quoted is there."""
    found = scene.reading.find("clickable", scene.quoted()[0])
    if found is not None:
        return click(found)
    parts = scene.reading.all(role)
    place = int(scene.memory.get("next", -1)) + 1
    scene.memory["next"] = place
    return click(parts[place % len(parts)])


def tabs(scene: Scene) -> ToolCall:
    """Look through the tabs."""
    return _through(scene, "link")


def sections(scene: Scene) -> ToolCall:
    """Look through the sections."""
    return _through(scene, "tab")


def section(scene: Scene) -> ToolCall:
    """Expand the one section, then submit."""
    part = scene.element("tab")
    return submit(scene) if part.expanded else click(part)


def results(scene: Scene) -> ToolCall:
    """Search, turn to the page of three on which the wanted result is, click it."""
    wanted = int(scene.taken(r"the (\d+)\w\w search result")) - 1
    field = scene.element("textbox")
    if field.value != scene.quoted()[0]:
        return fill(field, scene.quoted()[0])
    links = scene.reading.all("link")
    if not links:
        return click(scene.element("button", "Search"))
    if scene.memory.get("page", 0) != wanted // 3:
        scene.memory["page"] = wanted // 3
        return click(scene.element("link", str(wanted // 3 + 1)))
    return click(links[wanted % 3])


def _table(scene: Scene) -> dict[str, str]:
    rows = [line.split(" | ") for line in scene.reading.text if line.count(" | ") == 1]
    return {row[0]: row[1] for row in rows}


def cell(scene: Scene) -> ToolCall:
    """Type the value that stands beside the label of the goal."""
    value = _table(scene)[scene.taken(r"value of (.*) into")]
    return filled(scene, [(scene.element("textbox"), value)], scene.element("button", "Submit"))


def cells(scene: Scene) -> ToolCall:
    """Type into every field the value of the label before it."""
    table = _table(scene)
    labels = [line[:-1] for line in scene.reading.text if line.endswith(":")]
    fields = [(field, table[label]) for field, label in zip(scene.reading.all("textbox"), labels, strict=True)]
    return filled(scene, fields, scene.element("button", "Submit"))


def film(scene: Scene) -> ToolCall:
    """Fill genre, director and year, whatever their order and their names, and search."""
    genre, director, year = re.findall(r"for (.*) movies directed by (.*) from year (\d+)", scene.goal)[0]
    fields = scene.reading.all("textbox")
    labels = [line for line in scene.reading.text[1:] if re.search("genre|director|year|date", line, re.IGNORECASE)]
    wanted: list[str] = []
    for label in labels[-len(fields) :]:
        said = label.lower()
        wanted.append(genre if "genre" in said else director if "director" in said else year)
    buttons = scene.reading.all("button") or scene.reading.all("clickable")
    return filled(scene, list(zip(fields, wanted, strict=True)), buttons[-1])


def tweet(scene: Scene) -> ToolCall:
    """Find the person's message and click the button under it, by way of its menu where it is there."""
    name = scene.quoted()[0]
    user = scene.taken(r"user (@\w+),")
    direct = {"Reply": "reply", "Retweet": "retweet", "Like": "like"}
    lines = scene.reading.lines
    start = next(place for place, line in enumerate(lines) if isinstance(line, str) and f" {user} " in f"{line} ")
    after = [line for line in lines[start:] if not isinstance(line, str)]
    if name in direct:
        return click(next(element for element in after if element.name == direct[name]))
    found = next((element for element in after if element.name.startswith(name)), None)
    if scene.memory.get("open") and found is not None:
        return click(found)
    scene.memory["open"] = True
    return click(next(element for element in after if element.name == "more"))


PAGES: dict[str, Expert] = {
    "click-collapsible": section,
    "click-collapsible-2": sections,
    "click-tab": tab,
    "click-tab-2": tabs,
    "multi-layouts": film,
    "multi-orderings": film,
    "read-table": cell,
    "read-table-2": cells,
    "search-engine": results,
    "social-media": tweet,
}
