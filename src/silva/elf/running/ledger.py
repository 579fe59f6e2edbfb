"""What happened to a job: one line each, durable before the job goes on.

    {"event": "began", "step": "unique", "at": …}
    {"event": "ended", "step": "unique", "result": "…", "seconds": …, "count": …, "at": …}

A step that has ended stays ended.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import msgspec

from silva.lake.durable_lines import DurableLines
from silva.tree import Record

FILE = "ledger.jsonl"


class Event(Record, frozen=True, kw_only=True):
    """One thing that happened. `step` is the step, "" for the whole job. Of a step that ended: the `result`'s digest,
    how many entries it has (`count`), of what `kind`, whether it was `kept` from before; `why` says what went wrong, or
    what a reader must know. `seconds`, `tokens`, `usd`, `memory` (bytes at most) are what it took."""

    event: Literal["planned", "began", "ended", "failed", "done", "attempt", "derived", "checked", "note"]
    step: str = ""
    result: str = ""
    kind: str = ""
    count: int = 0
    kept: bool = False
    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    memory: int = 0
    why: str = ""
    at: float = 0.0


class Ledger:
    """The ledger of a job's folder.

    Args:
        folder: of the job.

    Raises:
        StoreError: a line before the last is none, or the file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = DurableLines(folder / FILE, Event, f"job {folder}", "begin the job anew")

    @property
    def events(self) -> list[Event]:
        """All of them, in their order."""
        return self._lines.records

    def ended(self) -> dict[str, Event]:
        """How each step that is over ended, by its id."""
        return {each.step: each for each in self.events if each.event == "ended"}

    def add(self, event: Event) -> Event:
        """Write an event; return once it is durable. Raises StoreError."""
        event = msgspec.structs.replace(event, at=event.at or time.time())
        self._lines.append(event)
        return event
