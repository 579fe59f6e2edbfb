"""Experts for MiniWoB++ pages of buttons and fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from silva.envs.gyms.browser.reading import Element
from silva.envs.gyms.browser.script import Expert, Scene, choose, click, fill
from silva.tree import ToolCall


def button(scene: Scene) -> ToolCall:
    """Click the button that the goal quotes."""
    return click(scene.element("button", scene.quoted()[0]))


def one(scene: Scene) -> ToolCall:
    """Click the first of two buttons, by its name."""
    return click(scene.element("button", "ONE"))


def sequence(scene: Scene) -> ToolCall:
    """Click one button, then the other."""
    name = "TWO" if scene.memory.get("clicked") else "ONE"
    scene.memory["clicked"] = True
    return click(scene.element("button", name))


def link(scene: Scene) -> ToolCall:
    """Click the word that the goal quotes."""
    return click(scene.element("clickable", scene.quoted()[0]))


def dialog(scene: Scene) -> ToolCall:
    """Click a button of a dialog; its `x` calls itself Close."""
    name = scene.quoted()[0]
    return click(scene.element("button", "Close" if name == "x" else name))


def submit(scene: Scene) -> ToolCall:
    """Click the button that submits."""
    return click(scene.element("button", "Submit"))


def boxes(scene: Scene) -> ToolCall:
    """Tick exactly what the goal lists, then submit."""
    wanted = set(scene.taken(r"Select (.*) and click").split(", "))
    for box in scene.reading.all("checkbox"):
        if box.checked != (box.name in wanted):
            return click(box)
    return submit(scene)


def option(scene: Scene) -> ToolCall:
    """Choose one of the radio buttons, then submit."""
    wanted = scene.element("radio", scene.taken(r"Select (.*) and click"))
    return submit(scene) if wanted.checked else click(wanted)


def one_of_list(scene: Scene) -> ToolCall:
    """Choose one option of a list, then submit."""
    wanted, field = scene.taken(r"Select (.*) from the list"), scene.element("combobox")
    return submit(scene) if field.value == wanted else choose(field, wanted)


def some_of_list(scene: Scene) -> ToolCall:
    """Choose several options of a list, then submit."""
    wanted, field = scene.taken(r"Select (.*) from the scroll list").split(", "), scene.element("listbox")
    chosen = (field.value or "").split(", ")
    return submit(scene) if sorted(chosen) == sorted(wanted) else choose(field, *wanted)


def filled(scene: Scene, fields: Sequence[tuple[Element, str]], last: Element) -> ToolCall:
    """Fill the next field that is not yet as wanted; click `last` when all are."""
    for field, text in fields:
        if field.value != text:
            return fill(field, text)
    return click(last)


def text(scene: Scene) -> ToolCall:
    """Type what is quoted and submit."""
    return filled(scene, [(scene.element("textbox"), scene.quoted()[0])], scene.element("button", "Submit"))


def cased(scene: Scene) -> ToolCall:
    """Type what is quoted, in the case that is asked for."""
    word = scene.quoted()[0]
    word = word.upper() if "upper case" in scene.goal else word.lower()
    return filled(scene, [(scene.element("textbox"), word)], scene.element("button", "Submit"))


def shown(scene: Scene) -> ToolCall:
    """Type the word that the page shows and submit."""
    return filled(scene, [(scene.element("textbox"), scene.reading.text[1])], scene.element("button", "Submit"))


def password(scene: Scene) -> ToolCall:
    """Type the password twice and submit."""
    fields = [(field, scene.quoted()[0]) for field in scene.reading.all("password")]
    return filled(scene, fields, scene.element("button", "Submit"))


def login(scene: Scene) -> ToolCall:
    """Type name and password and press the button; a popup in between is sent away."""
    away = scene.reading.find("button", "Cancel")
    if away is not None:
        return click(away)
    name, secret = scene.quoted()
    fields = [(scene.element("textbox"), name), (scene.element("password"), secret)]
    return filled(scene, fields, scene.element("button"))


def date(scene: Scene) -> ToolCall:
    """Give the date, in the form that a date field takes."""
    month, day, year = scene.taken(r"Enter (\S+) as").split("/")
    return filled(scene, [(scene.element("date"), f"{year}-{month}-{day}")], scene.element("button", "Submit"))


def focus(scene: Scene) -> ToolCall:
    """Click into a field: the first, or the one that is counted."""
    counted = re.search(r"(\d)\w\w input", scene.goal)
    return click(scene.reading.all("textbox")[int(counted.group(1)) - 1 if counted else 0])


FORMS: dict[str, Expert] = {
    "choose-list": one_of_list,
    "click-button": button,
    "click-button-sequence": sequence,
    "click-checkboxes": boxes,
    "click-checkboxes-large": boxes,
    "click-checkboxes-transfer": boxes,
    "click-dialog": dialog,
    "click-dialog-2": dialog,
    "click-link": link,
    "click-option": option,
    "click-scroll-list": some_of_list,
    "click-test": lambda scene: click(scene.element("button")),
    "click-test-2": one,
    "enter-date": date,
    "enter-password": password,
    "enter-text": text,
    "enter-text-2": cased,
    "enter-text-dynamic": text,
    "focus-text": focus,
    "focus-text-2": focus,
    "login-user": login,
    "login-user-popup": login,
    "text-transform": shown,
    "unicode-test": button,
}
