"""One tool: a function whose signature is its schema and whose first sentence is its description.

def crop(bench: Bench, path: str, box: list[int], to: str) -> …   ─▶ Instrument ─▶ Tool(parameters=…)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin, get_type_hints

from silva.envs.gyms.files.folder import Folder
from silva.errors import UsageError
from silva.tree import Json, Tool

_KINDS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


@dataclass(frozen=True)
class View:
    """A picture that is to be shown: the bytes of a PNG, its width and height in pixels."""

    content: bytes
    width: int
    height: int


@dataclass
class Bench:
    """What tools work on: the files, the results so far by name, (for Python) a way to get a sandbox, and pictures that
    the agent is to be shown with its next observation."""

    folder: Folder
    names: dict[str, Any] = field(default_factory=dict)
    sandbox: Callable[[], Any] | None = None
    views: list[View] = field(default_factory=list)


class Instrument:
    """A tool that can be called. `run(bench, **arguments)` gives a plain value, or something to wait for that does."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.name = run.__name__
        self.run = run
        hints = get_type_hints(run)
        self._places = [name for name in inspect.signature(run).parameters if name != "bench"]
        defaults = {
            name: each.default
            for name, each in inspect.signature(run).parameters.items()
            if each.default is not inspect.Parameter.empty
        }
        self._hints = {name: hints[name] for name in self._places}
        self._required = [name for name in self._places if name not in defaults]
        self.tool = Tool(
            name=self.name,
            description=" ".join((inspect.getdoc(run) or "").split()),
            parameters={
                "type": "object",
                "properties": {name: _schema(kind) for name, kind in self._hints.items()},
                "required": self._required,
                "additionalProperties": False,
            },
        )

    def checked(self, named: Json, places: tuple[Any, ...] = ()) -> Json:
        """The arguments by name, those by place included.

        Raises:
            UsageError: one is missing, unknown or of another type.
        """
        if len(places) > len(self._places):
            raise UsageError(f"{self.name} takes {len(self._places)} arguments, not {len(places)}")
        given = {**dict(zip(self._places, places, strict=False)), **named}
        for name in given:
            if name not in self._hints:
                raise UsageError(f"{self.name} has no argument {name!r}; it has {', '.join(self._places)}")
        for name in self._required:
            if name not in given:
                raise UsageError(f"{self.name} needs the argument {name!r}")
        return {name: _fitting(self.name, name, value, self._hints[name]) for name, value in given.items()}


def _schema(kind: Any) -> Json:
    if kind is Any:
        return {}
    if get_origin(kind) is list:
        inner = get_args(kind)[0]
        return {"type": "array", "items": _schema(inner)}
    return {"type": _KINDS[get_origin(kind) or kind]}


def _fitting(tool: str, name: str, value: Any, kind: Any) -> Any:
    if kind is Any:
        return value
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise UsageError(f"{tool}: {name} is a list, not {_shown(value)}")
        return [_fitting(tool, f"{name}[{index}]", each, get_args(kind)[0]) for index, each in enumerate(value)]
    plain = get_origin(kind) or kind
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if plain is int and isinstance(value, float) and value == int(value):
        return int(value)
    if plain is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        raise UsageError(f"{tool}: {name} is a {_KINDS[plain]}, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"
