"""What must be true of a file that a task leaves: one function for each kind of condition.

{"path": "totals.csv", "rows": [["town", "total"], ["Brask", 120.5]]}     a table's cells, numbers by value
{"path": "letter.docx", "says": ["Brask", "120.5"]}                       text in it, by tokens
{"path": "sales.png", "plots": {"Brask": 120.5, "Orle": 80}}              what a chart shows
{"path": "cut.png", "shows": {"red circle": 1}, "only": true}             what a drawn scene shows
{"path": "marked.png", "box": [10, 20, 60, 70], "colour": "red"}          a frame around a place, within 6 pixels
{"path": "a.txt", "gone": true}, {"path": "a.txt", "same": true}          removed; untouched
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silva.envs.gyms.files.checker import occurs, tokens
from silva.envs.gyms.files.folder import Folder
from silva.errors import UsageError

_NEAR = 6


def holds(condition: Mapping[str, Any], folder: Folder, first: Mapping[str, bytes]) -> bool:
    """Whether a condition holds now; a file that cannot be read does not meet it.

    Args:
        condition: as above.
        folder: the files now.
        first: the files at the beginning.
    """
    path = str(condition["path"])
    if condition.get("gone"):
        return path not in folder
    if path not in folder:
        return False
    if condition.get("same") and folder.read(path) != first.get(path):
        return False
    try:
        return all(test(condition, folder, path) for key, test in _TESTS.items() if key in condition)
    except (UsageError, ValueError, OSError):
        return False


def _rows(condition: Mapping[str, Any], folder: Folder, path: str) -> bool:
    from silva.envs.gyms.files.tools.tables import sheets

    made = next(iter(sheets(folder, path).values()), [])
    wanted: list[list[Any]] = condition["rows"]
    if condition.get("any_order"):
        if made[:1] == [] or not _alike(made[0], wanted[0]):
            return False
        made = [made[0], *sorted(made[1:], key=str)]
        wanted = [wanted[0], *sorted(wanted[1:], key=str)]
    return len(made) == len(wanted) and all(_alike(one, other) for one, other in zip(made, wanted, strict=True))


def _alike(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(tokens(str(a)) == tokens(str(b)) for a, b in zip(one, other, strict=True))


def _says(condition: Mapping[str, Any], folder: Folder, path: str) -> bool:
    from silva.envs.gyms.files.tools.documents import text_of

    said = tokens(text_of(folder, path))
    return all(occurs(tokens(str(each)), said, float(condition.get("tolerance", 0))) for each in condition["says"])


def _plots(condition: Mapping[str, Any], folder: Folder, path: str) -> bool:
    from silva.envs.gyms.files.tools.plotting import plotted

    made, wanted = plotted(folder.read(path)), condition["plots"]
    kind = condition.get("kind", "")
    if made is None or (kind and made[0] != kind) or {*made[1]} != {*wanted}:
        return False
    return all(abs(made[1][name] - float(value)) < 1e-6 + 1e-6 * abs(float(value)) for name, value in wanted.items())


def _shows(condition: Mapping[str, Any], folder: Folder, path: str) -> bool:
    from silva.envs.gyms.files.tools.pictures import things

    found: dict[str, int] = {}
    for each in things(folder.read(path)):
        name = f"{each['colour']} {each['shape']}"
        found[name] = found.get(name, 0) + 1
    wanted: dict[str, int] = condition["shows"]
    return all(found.get(name, 0) == count for name, count in wanted.items()) and (
        not condition.get("only") or sum(found.values()) == sum(wanted.values())
    )


def _box(condition: Mapping[str, Any], folder: Folder, path: str) -> bool:
    from silva.envs.gyms.files.tools.pictures import frames

    wanted: list[int] = condition["box"]
    found = frames(folder.read(path), str(condition.get("colour", "red")))
    return any(all(abs(a - b) <= _NEAR for a, b in zip(box, wanted, strict=True)) for box in found)


_TESTS = {"rows": _rows, "says": _says, "plots": _plots, "shows": _shows, "box": _box}
CONDITIONS = frozenset({*_TESTS, "gone", "same"})
"""What a condition may ask of a file."""
