"""What a reader of signals is, and which there are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from silva.curate.registry import Registry
from silva.curate.signals.attempt import Attempt
from silva.curate.signals.signal import Signal
from silva.errors import UsageError


class Reader(BaseModel):
    """A reader; its fields are its options.

    `name` is what its signals are called; `behind`: what it points at is worth going on from, not doing otherwise.
    `read` is pure: the same attempts give the same signals.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: ClassVar[str]
    summary: ClassVar[str]
    behind: ClassVar[bool] = False

    @abstractmethod
    def read(self, attempts: Sequence[Attempt], since: int) -> Iterable[Signal]:
        """The signals of the attempts made at step `since` or later.

        Args:
            attempts: all there are, steps in order; those before `since` are what is remembered.
            since: the first step that is asked about.
        """

    def signal(self, attempt: Attempt, **more: object) -> Signal:
        """One of its signals about an attempt."""
        trajectory = attempt.trajectory
        return Signal(
            kind=self.name,
            trajectory=trajectory.id,
            task=trajectory.task_id,
            run=trajectory.run_id,
            **more,  # pyright: ignore[reportArgumentType]
        )


_REGISTRY: Registry[type[Reader]] = Registry(
    "signals", "readers", "silva.curate.signals.readers", group="silva.signals", bases=(Reader,)
)
reader = _REGISTRY.add
"""Registers a reader's class."""


def readers() -> dict[str, type[Reader]]:
    """All readers there are, by name.

    Raises:
        UsageError: a package's cannot be used.
    """
    return _REGISTRY.all()


def made(wanted: Mapping[str, Mapping[str, object]]) -> list[Reader]:
    """Readers with their options.

    Args:
        wanted: options by the reader's name.

    Raises:
        UsageError: there is no such reader, or an option of it is wrong.
    """
    known = readers()
    found: list[Reader] = []
    for name, options in wanted.items():
        if name not in known:
            raise UsageError(f"signals: there is no reader {name!r}; there are {', '.join(known)}")
        try:
            found.append(known[name].model_validate(dict(options)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(["signals", name, *map(str, first["loc"])])
            raise UsageError(f"{where}: {first['msg']}") from error
    return found
