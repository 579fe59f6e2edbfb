"""What makes a folder a lake: `lake.json`, with the number of its layout."""

from __future__ import annotations

import time

import msgspec

from silva.errors import StoreError
from silva.lake.place import Place

TABLES_FILE = "tables.json"
LAKE_SCHEMA = 1
"""The layout this Silva writes; an older one is read, a newer one refused."""


def is_lake(where: Place, *, make: bool) -> bool:
    """Whether the place is a lake this Silva can read; with `make`, an empty place may become one and gives False.

    Raises:
        StoreError: it is no lake, its `lake.json` is damaged, or its schema is newer.
    """
    data = where.read("lake.json")
    if data is None:
        if make and where.empty():
            return False
        hint = "give an empty folder or a lake" if make else "make one with `silva rollout`, or give its location"
        raise StoreError(f"lake {where.where}: is not a lake (it has no lake.json); {hint}")
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        found = None
    schema = found.get("schema") if isinstance(found, dict) and found.get("lake") == "silva" else None
    if not isinstance(schema, int):
        raise StoreError(
            f"lake {where.where}: lake.json is damaged; if this is a lake, write into it "
            f'{{"lake":"silva","schema":{LAKE_SCHEMA}}}'
        )
    if schema > LAKE_SCHEMA:
        raise StoreError(
            f"lake {where.where}: its schema {schema} is newer than this Silva reads ({LAKE_SCHEMA}); upgrade silva"
        )
    return True


def known_tables(where: Place) -> set[str]:
    """Names of the tables this lake has had; none where an older version alone wrote it."""
    try:
        return set(msgspec.json.decode(where.read(TABLES_FILE) or b"[]", type=list[str]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return set()


def remember_tables(where: Place, names: set[str]) -> None:
    """Write down which tables the lake has, so that one that goes is missed."""
    known = known_tables(where)
    if not names <= known:
        where.write(TABLES_FILE, msgspec.json.encode(sorted(known | names)))


def make_lake(where: Place) -> None:
    """Make the empty place a lake."""
    where.write("lake.json", msgspec.json.encode({"lake": "silva", "schema": LAKE_SCHEMA, "made": time.time()}))
