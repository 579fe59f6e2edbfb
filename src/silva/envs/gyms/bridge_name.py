"""What follows a bridge's prefix: a place, and arguments for what is there.

    inspect/evals/sums.py@sums,level=3,words=true ─▶ place "evals/sums.py@sums", arguments {"level": 3, "words": true}

The arguments stand in the name, not among the options, because they decide which tasks there are: the same name is
always the same list of tasks. A value is JSON where it can be read as such, else text; a comma inside a value does no
harm unless what follows it looks like another argument.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silva.errors import UsageError
from silva.tree import Json

_NEXT = re.compile(r",(?=[A-Za-z_][\w.]*=)")


@dataclass(frozen=True, kw_only=True)
class BridgeName:
    """A parsed name. `text` is the whole of it, as it was typed."""

    text: str
    place: str
    arguments: Json


def parse(text: str) -> BridgeName:
    """Read `place,key=value,…`; a dot in a key makes a nested object (`task.level=3`).

    Raises:
        UsageError: there is no place, or one key stands where both a value and an object are asked for.
    """
    place, *rest = _NEXT.split(text)
    if not place:
        raise UsageError(f"environment name {text!r}: nothing stands before its arguments")
    arguments: Json = {}
    for item in rest:
        key, _, value = item.partition("=")
        *path, last = key.split(".")
        inner: Any = arguments
        for step in path:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise UsageError(f"environment name {text!r}: {key} is inside a value")
        if last in inner:
            raise UsageError(f"environment name {text!r}: {key} is given twice")
        inner[last] = _value(value)
    return BridgeName(text=text, place=place, arguments=arguments)


def file_of(place: str, prefix: str) -> Path | None:
    """The Python file that `path/to/file.py` or `path/to/file.py@name` means; None where it means a module.

    Raises:
        UsageError: it names a file that is not there.
    """
    path = place.partition("@")[0]
    if not path.endswith(".py"):
        return None
    found = Path(path).expanduser()
    if not found.is_file():
        raise UsageError(f"environment {prefix}{place}: no such file {path}")
    return found


def folder_of(name: str, prefix: str) -> Path | None:
    """The folder that an environment's name, `PREFIX` and its path, means; None for any other name.

    Raises:
        UsageError: there is no such folder.
    """
    if not name.startswith(prefix) or name == prefix:
        return None
    place = name.removeprefix(prefix)
    folder = Path(place).expanduser()
    if not folder.is_dir():
        raise UsageError(f"environment {name}: there is no folder {place}")
    return folder.resolve()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
