"""The ledger: one line for each thing that happened to a stage, appended and durable before the loop goes on.

    {"stage": "round-1.train", "event": "begun", "inputs": "…", "at": …}
    {"stage": "round-1.train", "event": "ended", "inputs": "…", "at": …, "seconds": …, "outputs": {…}}

A stage that has ended stays ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from silva.lake.durable_lines import DurableLines
from silva.tree import Json, Record

FILE = "ledger.jsonl"


class Entry(Record, frozen=True, kw_only=True):
    """One thing that happened. `skipped` is an end without outputs, because a stage gave nothing to go on with;
    `waiting` is none: people must do their part first. `note` says why. `at` is Unix seconds, `seconds` how long the
    part of the stage took that ended it."""

    stage: str
    event: Literal["begun", "ended", "skipped", "waiting", "failed"]
    inputs: str
    at: float
    seconds: float = 0.0
    outputs: Json = msgspec.field(default_factory=dict[str, Any])
    note: str = ""

    @property
    def over(self) -> bool:
        """Whether the stage need not be run again."""
        return self.event in ("ended", "skipped")


class StageLedger:
    """The ledger of a loop's folder.

    Args:
        folder: of the loop; the file is made with the first line.

    Raises:
        StoreError: a line before the last is no entry, or the file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = DurableLines(folder / FILE, Entry, f"loop {folder}", "restore it from a copy")

    @property
    def entries(self) -> list[Entry]:
        """All of them, in their order."""
        return self._lines.records

    def over(self) -> dict[str, Entry]:
        """How each stage that is over ended, by name."""
        return {entry.stage: entry for entry in self.entries if entry.over}

    def append(self, entry: Entry) -> None:
        """Write an entry; return once it is durable.

        Raises:
            StoreError: the disk refused.
        """
        self._lines.append(entry)
