"""The ledger: one line for each thing that happened to a stage, appended and durable before the loop goes on.

    {"stage": "round-1.train", "event": "begun", "inputs": "…", "at": …}
    {"stage": "round-1.train", "event": "ended", "inputs": "…", "at": …, "seconds": …, "outputs": {…}}

A stage that has ended stays ended. A last line that was cut short by a kill is no line: it is cut off before the next
is written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from silva.errors import StoreError
from silva.lake.durable import make_folder, refusals, sync_folder
from silva.tree import Json, Record

FILE = "ledger.jsonl"


class Entry(Record, frozen=True, kw_only=True):
    """One thing that happened. `skipped` is an end without outputs, because a stage gave nothing to go on with; `note`
    says why. `at` is Unix seconds, `seconds` how long the part of the stage took that ended it."""

    stage: str
    event: Literal["begun", "ended", "skipped", "failed"]
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
        self._path = folder / FILE
        self.entries: list[Entry] = []
        self._whole = 0
        with refusals(f"loop {folder}"):
            data = self._path.read_bytes() if self._path.exists() else b""
        lines = data.split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                self.entries.append(msgspec.json.decode(line, type=Entry))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise StoreError(
                    f"{self._path} line {number}: is no entry ({error}); restore it from a copy"
                ) from error
            self._whole += len(line) + 1

    def over(self) -> dict[str, Entry]:
        """How each stage that is over ended, by name."""
        return {entry.stage: entry for entry in self.entries if entry.over}

    def append(self, entry: Entry) -> None:
        """Write an entry; return once it is durable.

        Raises:
            StoreError: the disk refused.
        """
        line = msgspec.json.encode(entry) + b"\n"
        with refusals(f"loop {self._path.parent}"):
            make_folder(self._path.parent)
            new = not self._path.exists()
            with self._path.open("r+b" if not new else "xb") as file:
                file.truncate(self._whole)
                file.seek(self._whole)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if new:
                sync_folder(self._path.parent)
        self._whole += len(line)
        self.entries.append(entry)
