"""A registry: classes of one noun by their names, those of a package of Silva's and those that other packages bring.

modules of a package ─ decorator ─▶ add ─┐
entry points of a group ─▶ load ─────────┴▶ all: by name, loaded when they are first asked for
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib import metadata
from typing import Any, Generic, TypeVar

from silva.errors import UsageError

Class = TypeVar("Class", bound=type[Any])


class Registry(Generic[Class]):
    """Classes by the `name` that each says of itself.

    Args:
        room: what errors begin with.
        noun: what errors call several of them.
        package: whose modules register their own.
        group: of the entry points by which packages bring theirs; "" for none.
        bases: what a package's must be one of.
    """

    def __init__(self, room: str, noun: str, package: str, group: str = "", bases: tuple[type, ...] = ()) -> None:
        self._room, self._noun, self._package, self._group, self._bases = room, noun, package, group, bases
        self._made: dict[str, Class] = {}
        self._loaded = False

    def add(self, made: Class) -> Class:
        """Register a class.

        Raises:
            UsageError: another class has its name.
        """
        known = self._made.get(made.name)
        if known is not None and (known.__module__, known.__qualname__) != (made.__module__, made.__qualname__):
            where = f"{known.__module__} and {made.__module__}"
            raise UsageError(f"{self._room}: two {self._noun} are called {made.name!r}: {where}")
        self._made[made.name] = made
        return made

    def all(self) -> dict[str, Class]:
        """All there are, by name.

        Raises:
            UsageError: a package's cannot be loaded, or is none.
        """
        if not self._loaded:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{package.__name__}.{module.name}")
            for point in metadata.entry_points(group=self._group) if self._group else ():
                self.add(self._of_package(point))
            self._loaded = True
        return dict(sorted(self._made.items()))

    def _of_package(self, point: metadata.EntryPoint) -> Class:
        try:
            made = point.load()
        except Exception as error:
            text = " ".join(str(error).split())
            raise UsageError(f"{self._room}: {point.value} cannot be loaded: {type(error).__name__}: {text}") from error
        if not (isinstance(made, type) and issubclass(made, self._bases)):
            none = " and ".join(f"no {base.__name__}" for base in self._bases)
            raise UsageError(f"{self._room}: {point.name} ({point.value}) is {none}")
        return made  # pyright: ignore[reportReturnType]
