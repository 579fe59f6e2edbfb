"""Experts for MiniWoB++ pages that want something worked out."""

from __future__ import annotations

import re

from silva.envs.gyms.browser.miniwob_forms import filled
from silva.envs.gyms.browser.script import Expert, Scene, click, fill
from silva.tree import ToolCall


def _answered(scene: Scene, answer: str) -> ToolCall:
    return filled(scene, [(scene.element("textbox"), answer)], scene.element("button", "Submit"))


def word(scene: Scene) -> ToolCall:
    """Type the word of the paragraph that is counted, without what stands around it."""
    words = scene.reading.text[1].split()
    return _answered(scene, re.sub(r"[^A-Za-z]", "", words[int(scene.taken(r"(\d+)\w\w word")) - 1]))


def arithmetic(scene: Scene) -> ToolCall:
    """Add, subtract or multiply two numbers."""
    left, sign, right = re.findall(r"(-?\d+) ([-+x*]) (-?\d+)", scene.reading.text[1])[0]
    one, other = int(left), int(right)
    return _answered(scene, str(one + other if sign == "+" else one - other if sign == "-" else one * other))


def algebra(scene: Scene) -> ToolCall:
    """Solve an equation of one plus or minus for x."""
    left, sign, right, result = re.findall(r"(x|\d+) ([-+]) (x|\d+) = (-?\d+)", scene.reading.text[1])[0]
    total = int(result)
    if sign == "+":
        answer = total - int(right if left == "x" else left)
    else:
        answer = total + int(right) if left == "x" else int(left) - total
    return _answered(scene, str(answer))


def parity(scene: Scene) -> ToolCall:
    """Mark every number, from the top, then submit."""
    numbers = [int(line) for line in scene.reading.text if re.fullmatch(r"-?\d+", line)]
    place = int(scene.memory.get("marked", -1)) + 1
    scene.memory["marked"] = place
    if place == len(numbers):
        return click(scene.element("button", "Submit"))
    return click(scene.reading.all("button")[2 * place + (numbers[place] % 2 == 0)])


def guess(scene: Scene) -> ToolCall:
    """Halve what is left between the bounds that the page tells."""
    low, high = scene.memory.setdefault("bounds", [0, 9])
    said = " ".join(scene.reading.text)
    field = scene.element("number")
    if not scene.memory.get("typed"):
        told = re.search(r"is (lower|higher) than (\d)", said)
        if told is not None and told.group(1) == "lower":
            high = int(told.group(2)) - 1
        elif told is not None:
            low = int(told.group(2)) + 1
        scene.memory["bounds"], scene.memory["typed"] = [low, high], True
        return fill(field, str((low + high) // 2))
    scene.memory["typed"] = False
    return click(scene.element("button", "Submit"))


def country(scene: Scene) -> ToolCall:
    """Type a beginning, take the suggestion that ends as wanted, submit."""
    start, *ends = scene.quoted()
    end = ends[0] if ends else ""
    field = scene.reading.all("textbox")[0]
    if (field.value or "").startswith(start) and (field.value or "").endswith(end) and scene.memory.get("taken"):
        return click(scene.element("button", "Submit"))
    offered = [
        e for e in scene.reading.elements if e.role in ("option", "clickable", "menuitem") and e.name.endswith(end)
    ]
    offered = [element for element in offered if element.name.startswith(start)]
    if offered:
        scene.memory["taken"] = True
        return click(offered[0])
    return fill(field, start)


PUZZLES: dict[str, Expert] = {
    "find-word": word,
    "guess-number": guess,
    "odd-or-even": parity,
    "simple-algebra": algebra,
    "simple-arithmetic": arithmetic,
    "use-autocomplete-nodelay": country,
}
