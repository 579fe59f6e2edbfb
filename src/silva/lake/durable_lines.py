"""A file of records, one a line, each durable before its writer goes on.

A last line that a kill cut short is no line: it is left out, and cut off before the next one is written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from silva.errors import StoreError
from silva.lake.durable import make_folder, refusals, sync_folder

Kind = TypeVar("Kind", bound=msgspec.Struct)


class DurableLines(Generic[Kind]):
    """The records of a file that one process appends to.

    Args:
        path: the file; it and its folder are made with the first line.
        kind: of the records.
        owner: whose file it is, for messages: `loop FOLDER`.
        advice: what to do where the file is damaged.

    Raises:
        StoreError: a line before the last is no record, or the file cannot be read.
    """

    def __init__(self, path: Path, kind: type[Kind], owner: str, advice: str) -> None:
        self._path, self._owner, self._whole = path, owner, 0
        self.records: list[Kind] = []
        with refusals(owner):
            data = path.read_bytes() if path.exists() else b""
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            try:
                self.records.append(msgspec.json.decode(line, type=kind))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise StoreError(f"{path} line {number}: is no entry ({error}); {advice}") from error
            self._whole += len(line) + 1

    def append(self, record: Kind) -> None:
        """Write a record; return once it is durable.

        Raises:
            StoreError: the disk refused.
        """
        line = msgspec.json.encode(record) + b"\n"
        with refusals(self._owner):
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
        self.records.append(record)
