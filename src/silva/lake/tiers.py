"""Tiers: where the rows of a lake are that are no longer on its disk.

    tiers.json ─▶ the cold lake's location ─▶ its tables, read after the lake's own (see `reader`, `sql`, `search`)

Which rows are moved, and how, says `moving`. Credentials of an object store come from the environment, as always.
"""

from __future__ import annotations

import threading

import msgspec

from silva.errors import StoreError
from silva.lake import blobs
from silva.lake.place import Folder, Place, place
from silva.lake.tables import Tables

FILE = "tiers.json"
_CACHES_MB = 64.0


def cold_location(where: Place) -> str:
    """Where the lake's cold tier is; "" where it has none.

    Raises:
        StoreError: what says so is damaged.
    """
    data = where.read(FILE)
    if data is None:
        return ""
    try:
        found = msgspec.json.decode(data, type=dict[str, str])["cold"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
        raise StoreError(f'lake {where.where}: {FILE} is damaged; write into it {{"cold":"LOCATION"}}') from error
    return found


class Tiers:
    """The cold tier of a lake, opened when first asked for. Safe to use from threads."""

    def __init__(self, where: Place) -> None:
        self._place = where
        self._cold: Tables | None = None
        self._far: Place | None = None
        self._asked = False
        self._mutex = threading.Lock()

    def cold(self) -> Tables | None:
        """The tables of the cold tier; None where there is none (yet).

        Raises:
            StoreError: it cannot be reached: an answer without it would lack rows.
        """
        with self._mutex:
            # Another process may begin one while this lake is open; in an object store that is asked once.
            if self._cold is None and (isinstance(self._place, Folder) or not self._asked):
                self._asked = True
                location = cold_location(self._place)
                if location:
                    self._far = place(location)
                    self._cold = Tables(self._far, caches_mb=_CACHES_MB)
            return self._cold

    def holding(self, blob: str) -> Place:
        """The place that has a blob: the lake's own, or else the cold tier."""
        if blobs.has(self._place, blob) or self.cold() is None or self._far is None:
            return self._place
        return self._far
