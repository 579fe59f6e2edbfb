"""A ledger: numbered entries beside the journal, which many processes may write at once, also while a run writes the
lake.

    read entries 1 … n ─▶ decide ─▶ create entry n + 1, if nobody has ─┬─▶ durable: it happened
                  ▲                                                    └─▶ somebody has: read on, decide anew
                  └────────────────────────────────────────────────────┘

An entry is one small file (`ledgers/NAME/0000000001.json`), made whole and only where there is none: by a link in a
folder, by a conditional put in an object store. So it needs neither the lake's writer lock nor a lock of its own, a
writer killed at any moment leaves the entry or nothing, and of two who decide on the same state one decides again. It
is for what few decide and many must know, such as which policy is promoted: an entry is one file, thousands of them
want the journal.

Blobs that an entry names count as listed: `silva lake doctor` looks after them.
"""

from __future__ import annotations

import re

import msgspec

from silva.errors import StoreError, UsageError
from silva.lake.place import Place
from silva.tree import Record

ROOT = "ledgers"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99})*", re.ASCII)
_FILE = re.compile(rf"{ROOT}/(.+)/(\d{{10}})\.json", re.ASCII)


class LedgerEntry(Record, frozen=True, kw_only=True):
    """One entry: its number from 1, the blobs it names, and whatever its writer says, as JSON."""

    number: int
    blobs: tuple[str, ...] = ()
    data: msgspec.Raw


class Ledger:
    """One ledger of a lake.

    Args:
        place: where the lake stands.
        name: letters, digits, `._-`, in parts divided by `/`.

    Raises:
        UsageError: the name is none.
    """

    def __init__(self, place: Place, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(f"ledger {name[:120]!r}: use letters, digits, dots, dashes and underscores")
        self._place, self.name = place, name
        self._known: list[LedgerEntry] = []

    def entries(self) -> list[LedgerEntry]:
        """All entries, in order. What was read once is not read again: entries never change.

        Raises:
            StoreError: one is missing or damaged.
        """
        files = [_FILE.fullmatch(name) for name in self._place.names(f"{ROOT}/{self.name}")]
        newest = max((int(file[2]) for file in files if file is not None and file[1] == self.name), default=0)
        for number in range(len(self._known) + 1, newest + 1):
            self._known.append(self._read(number))
        return list(self._known)

    def append(self, number: int, data: bytes, blobs: tuple[str, ...] = ()) -> bool:
        """Write the entry of that number, durably. False where there is one: read on and decide anew.

        Args:
            number: one more than the entries the writer has read.
            data: JSON.
            blobs: sha256 of the blobs it names, which are durable already.

        Raises:
            StoreError: it could not be written.
        """
        entry = LedgerEntry(number=number, blobs=blobs, data=msgspec.Raw(data))
        return self._place.create(self._file(number), msgspec.json.encode(entry)) is not None

    def _file(self, number: int) -> str:
        return f"{ROOT}/{self.name}/{number:010d}.json"

    def _read(self, number: int) -> LedgerEntry:
        name = self._file(number)
        data = self._place.read(name)
        if data is None:
            raise StoreError(f"lake {self._place.where}: {name} is missing though later ones are there; restore it")
        try:
            entry = msgspec.json.decode(data, type=LedgerEntry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"lake {self._place.where}: {name} is damaged; restore it from a copy") from error
        if entry.number != number:
            raise StoreError(f"lake {self._place.where}: {name} holds entry {entry.number}; restore it from a copy")
        return entry


def ledgers(place: Place, under: str = "") -> list[str]:
    """Names of the ledgers of a lake, sorted; `under` takes those below one name."""
    files = [_FILE.fullmatch(name) for name in place.names(f"{ROOT}/{under}" if under else ROOT)]
    return sorted({file[1] for file in files if file is not None})
