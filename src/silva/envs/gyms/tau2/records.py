"""Databases whose records several episodes share until one of them touches a record: an episode's state is what it
touched, and to begin one, or to go back, copies nothing else.

    pristine database (read once a process, never changed) ─▶ shared(…) ─▶ Records ─▶ touched(…) ─▶ again(…)

A record that is taken by its key is copied first, so that whatever changes it changes a copy. What is only passed over
(`values`, `items`) is the shared one: the pinned package changes no record that it came by so, and a test plays every
task to make sure of it. Databases of other shapes (telecom's lists) are not shared; they are small.
"""

from __future__ import annotations

import pickle
from typing import Any

_ABSENT = object()


class Records(dict[str, Any]):
    """Records by id, those of `base` until they are touched. `own`: the ids of those that are this one's alone."""

    def __init__(self, base: dict[str, Any]) -> None:
        super().__init__(base)
        self.base = base
        self.own: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        record = super().__getitem__(key)
        if key in self.own:
            return record
        copy = pickle.loads(pickle.dumps(record, 5))
        super().__setitem__(key, copy)
        self.own.add(key)
        return copy

    def __setitem__(self, key: str, record: Any) -> None:
        super().__setitem__(key, record)
        self.own.add(key)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.own.discard(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As a dictionary's."""
        return self[key] if key in self else default  # noqa: SIM401 - that would be this

    def pop(self, key: str, default: Any = _ABSENT) -> Any:
        """As a dictionary's."""
        if key not in self and default is not _ABSENT:
            return default
        record = self[key]
        del self[key]
        return record

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As a dictionary's."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        """As a dictionary's."""
        for key, record in dict(*others, **named).items():
            self[key] = record

    def clear(self) -> None:
        """As a dictionary's."""
        super().clear()
        self.own.clear()

    def popitem(self) -> tuple[str, Any]:
        """As a dictionary's."""
        key = next(reversed(self))
        return key, self.pop(key)

    def __reduce__(self) -> Any:
        return dict, (dict(self.items()),)


def shares(database: Any) -> bool:
    """Whether a database is one of records by id throughout."""
    fields = [getattr(database, name) for name in type(database).model_fields]
    return bool(fields) and all(isinstance(field, dict) for field in fields)


def shared(pristine: Any) -> Any:
    """A database that begins as `pristine`, which is not changed through it."""
    fields = {name: Records(getattr(pristine, name)) for name in type(pristine).model_fields}
    return type(pristine).model_construct(**fields)


def touched(database: Any) -> dict[str, Any] | None:
    """What of a shared database is its own, by field: records, and all ids in order where they are not the pristine
    ones' with new ones at the end; None where it is no shared database (any more)."""
    found: dict[str, Any] = {}
    for name in type(database).model_fields:
        records = getattr(database, name)
        if not isinstance(records, Records):
            return None
        own = {key: dict.__getitem__(records, key) for key in records.own}
        expected = [*records.base, *(key for key in records if key not in records.base)]
        order = None if list(records) == expected else list(records)
        added = [key for key in records if key not in records.base]
        found[name] = {"own": own, "added": added, "order": order}
    return found


def again(pristine: Any, kept: dict[str, Any]) -> Any:
    """The shared database that `touched` told of. The records in `kept` become its own."""
    database = shared(pristine)
    for name, told in kept.items():
        records = getattr(database, name)
        own, order = told["own"], told["order"]
        if order is not None:
            dict.clear(records)
            for key in order:
                dict.__setitem__(records, key, own[key] if key in own else records.base[key])
        else:
            for key in own:
                if key in records.base:
                    dict.__setitem__(records, key, own[key])
            for key in told["added"]:
                dict.__setitem__(records, key, own[key])
        records.own = set(own)
    return database
