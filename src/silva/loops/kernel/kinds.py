"""The kinds of the table, loaded; and the loop of a folder, of whichever kind it is."""

from __future__ import annotations

import difflib
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from silva.errors import StoreError, UsageError
from silva.loops.kernel.kind import Kind
from silva.loops.kernel.loop import CONFIG, Loop
from silva.loops.kernel.table import FIRST, OWN, registered, summaries


def kind(name: str) -> Kind[Any]:
    """The kind of that name.

    Raises:
        UsageError: there is none, or what a package registers cannot be used.
    """
    if name in OWN:
        module, _, attribute = OWN[name].target.partition(":")
        return getattr(import_module(module), attribute)
    point = next((each for each in registered() if each.name == name), None)
    if point is None:
        near = difflib.get_close_matches(name, summaries(), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(summaries())}"
        raise UsageError(f"no kind of loop {name!r}: {hint}")
    try:
        found = point.load()
    except Exception as error:
        words = " ".join(str(error).split())
        raise UsageError(f"loop {name}: entry point {point.value}: {type(error).__name__}: {words}") from error
    if not isinstance(found, Kind) or found.name != name:
        raise UsageError(f"loop {name}: entry point {point.value} names no Kind called {name}")
    return found


def read_loop(folder: Path) -> tuple[Kind[Any], Loop[Any]]:
    """The loop of a folder, and its kind.

    Raises:
        UsageError: it holds none, or one of a kind that is not installed.
        StoreError: what it holds is damaged.
    """
    try:
        said: Any = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
        mine = kind(str(said.get("loop", FIRST)))
        config = mine.config.model_validate({**said, "folder": str(folder)})
    except FileNotFoundError as error:
        raise UsageError(f"folder {folder}: holds no loop (no {CONFIG}); begin one with silva loop {FIRST}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError, TypeError, AttributeError) as error:
        words = " ".join(str(error).split())[:200]
        raise StoreError(f"folder {folder}: {CONFIG} cannot be read ({words}); restore it from a copy") from error
    return mine, mine.open(config)
