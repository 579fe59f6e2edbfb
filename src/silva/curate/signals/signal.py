"""A signal: one place in one walk that is worth another look, and why."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.tree import Json, Record, digest


class Signal(Record, frozen=True, kw_only=True):
    """What a reader found.

    Attributes:
        kind: the reader's name.
        trajectory: the attempt's id; `task` and `run` are what it is of.
        node: the action it points at; "" where it points at none.
        turn: its number, from 1; 0 without one.
        focus: in words, what should be practised or looked at there.
        evidence: what it was read from: numbers and names, as JSON.
    """

    kind: str
    trajectory: str
    task: str
    run: str
    node: str = ""
    turn: int = 0
    focus: str = ""
    evidence: Json = msgspec.field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        """The same for the same claim about the same place."""
        return digest("signal", self.kind, self.trajectory, self.node, self.focus)
