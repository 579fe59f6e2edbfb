"""What a symbolic rule is: a name, what it looks for, and the turns of a walk that it would not learn from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from silva.curate.turn import Turn, Walk


class Finding(NamedTuple):
    """A turn that should carry no loss, and why, in one line."""

    turn: Turn
    reason: str


class Rule(Protocol):
    """A rule. It sees the whole walk, what came after a turn too: it judges what was done, not what could be known."""

    @property
    def name(self) -> str:
        """What stands in `Supervision.by`."""
        ...

    @property
    def summary(self) -> str:
        """What it looks for, in one line."""
        ...

    def find(self, walk: Walk) -> Iterable[Finding]:
        """The turns it masks."""
        ...
