"""Named versions: the tables of a lake as they were, so that a data set can be read again exactly.

A tag stands twice: in Lance, as a branch nobody goes on from, which keeps the version's files and no others, and in
`tags/NAME.json`, which ties the tables together.
"""

from __future__ import annotations

import logging
import re
import time

import msgspec

from silva.errors import StoreError, UsageError
from silva.lake.place import Place
from silva.lake.tables import Tables
from silva.tree import Record

log = logging.getLogger(__name__)


class Version(Record, frozen=True, kw_only=True):
    """A tagged version: its name, a note, when (Unix seconds), and each table's Lance version and number of rows."""

    name: str
    note: str = ""
    at: float = 0.0
    tables: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    rows: dict[str, int] = msgspec.field(default_factory=dict[str, int])


def versions(place: Place) -> list[Version]:
    """The tags of a lake, oldest first. One whose file is damaged is not among them; `silva lake doctor` names it."""
    found: list[Version] = []
    for name in place.names("tags"):
        data = place.read(name)
        if data is not None:
            try:
                found.append(msgspec.json.decode(data, type=Version))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                log.warning("lake %s: %s is damaged (%s); it is left out", place.where, name, error)
    return sorted(found, key=lambda version: (version.at, version.name))


def version(place: Place, name: str) -> Version:
    """The tag of that name.

    Raises:
        StoreError: there is none; the line lists those there are.
    """
    known = {each.name: each for each in versions(place)}
    if name not in known:
        raise StoreError(f"lake {place.where}: has no version {name}; it has {', '.join(known) or 'none'}")
    return known[name]


def tag(place: Place, tables: Tables, name: str, note: str) -> Version:
    """Name the tables as they are now.

    Raises:
        UsageError: the name is taken, or no name for a file.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(f"tag {name!r}: use letters, digits, dots, dashes and underscores")
    if place.exists(f"tags/{name}.json"):
        raise UsageError(f"lake {place.where}: has a version {name} already; choose another name")
    at = {each: tables.tag(each, name) for each in sorted(tables.names())}
    made = Version(name=name, note=note, at=time.time(), tables=at, rows={each: tables.count(each) for each in at})
    place.write(f"tags/{name}.json", msgspec.json.encode(made))
    return made
