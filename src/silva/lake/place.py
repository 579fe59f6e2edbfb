"""Where a lake stands: a folder, or a prefix of an object store. Small files by name; Lance keeps its own.

lake.json            that this is a lake, and of which schema
tables/*.lance       the tables
tables.json          which of them there have been
blobs/ab/abcd…       content-addressed bytes
tags/NAME.json       named versions of the tables
ledgers/NAME/…       numbered entries that many may write (see `ledger`)
writers/             of an object store: who wrote it, and who ended without having brought all to the tables
journal/             segments not yet compacted (of a folder; an object store's journal is spooled on this machine)
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Protocol

from silva.errors import StoreError
from silva.lake.durable import create_whole, refusals, write_whole
from silva.lake.spool import is_mark


class Place(Protocol):
    """Small durable files by relative name."""

    where: str
    """The lake's name in messages, as the user gave it."""
    journal: Path
    """The folder of the journal's segments, always on this machine."""
    tables: str
    """Where Lance opens the tables."""
    options: dict[str, str]
    """Lance's storage options."""

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None when there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write the file whole and durably, replacing what was there."""
        ...

    def create(self, name: str, data: bytes) -> str | None:
        """Write the file whole and durably if there is none; return a tag of it, or None when there is one."""
        ...

    def exists(self, name: str) -> bool:
        """Whether the file is there."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Names of the files below `prefix`, sorted."""
        ...

    def empty(self) -> bool:
        """Whether nothing at all is here yet."""
        ...


class Folder:
    """A lake in a local folder."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.root = Path(where).expanduser()
        self.journal = self.root / "journal"
        self.tables = str(self.root / "tables")
        self.options: dict[str, str] = {}

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None when there is none."""
        with refusals(self.where):
            try:
                return (self.root / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, name: str, data: bytes) -> None:
        """Write the file whole and durably, replacing what was there."""
        with refusals(self.where):
            write_whole(self.root / name, data)

    def create(self, name: str, data: bytes) -> str | None:
        """Write the file whole and durably if there is none; return its sha256, or None when there is one."""
        with refusals(self.where):
            return hashlib.sha256(data).hexdigest() if create_whole(self.root / name, data) else None

    def exists(self, name: str) -> bool:
        """Whether the file is there."""
        return (self.root / name).exists()

    def names(self, prefix: str) -> list[str]:
        """Names of the files below `prefix`, sorted; drafts of files being written are not files yet."""
        found: list[str] = []
        for folder, _, files in os.walk(self.root / prefix):
            found += [str(Path(folder, f).relative_to(self.root)) for f in files if not f.startswith(".")]
        return sorted(found)

    def empty(self) -> bool:
        """Whether nothing at all is here yet."""
        with refusals(self.where):
            if self.root.exists() and not self.root.is_dir():
                raise StoreError(f"lake {self.where}: is a file, not a folder; give another location")
            return not self.root.exists() or all(is_mark(entry.name) for entry in self.root.iterdir())


def place(location: str | Path, options: dict[str, str] | None = None) -> Place:
    """The place of a lake.

    Raises:
        MissingError: an object store is asked for and its package is not installed.
        StoreError: the URL is of a store Silva does not know.
    """
    text = str(location)
    scheme = text.split("://", 1)[0] if "://" in text else ""
    if not scheme:
        return Folder(text)
    if scheme == "s3":
        from silva.lake.bucket import Bucket

        return Bucket(text, options or {})
    raise StoreError(f"lake {text}: {scheme}:// is not a store Silva knows; use a folder or s3://bucket/prefix")
