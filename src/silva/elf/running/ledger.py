"""What happened to a job: one line each, durable before the job goes on.

    {"event": "began", "step": "unique", "at": …}
    {"event": "ended", "step": "unique", "result": "…", "seconds": …, "count": …, "at": …}

A step that has ended stays ended. A last line that a kill cut short is no line, and is cut off before the next one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from silva.errors import StoreError
from silva.lake.durable import make_folder, refusals, sync_folder
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
        self._path = folder / FILE
        self.events: list[Event] = []
        self._whole = 0
        with refusals(f"job {folder}"):
            data = self._path.read_bytes() if self._path.exists() else b""
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                self.events.append(msgspec.json.decode(line, type=Event))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise StoreError(f"{self._path} line {number}: is no event ({error}); begin the job anew") from error
            self._whole += len(line) + 1

    def ended(self) -> dict[str, Event]:
        """How each step that is over ended, by its id."""
        return {each.step: each for each in self.events if each.event == "ended"}

    def add(self, event: Event) -> Event:
        """Write an event; return once it is durable. Raises StoreError."""
        event = msgspec.structs.replace(event, at=event.at or time.time())
        line = msgspec.json.encode(event) + b"\n"
        with refusals(f"job {self._path.parent}"):
            make_folder(self._path.parent)
            new = not self._path.exists()
            with self._path.open("xb" if new else "r+b") as file:
                file.truncate(self._whole)
                file.seek(self._whole)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if new:
                sync_folder(self._path.parent)
        self._whole += len(line)
        self.events.append(event)
        return event
