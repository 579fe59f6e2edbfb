"""What happened to a line of policies. Events are appended, never changed; the state of a line is what they add up
to."""

from __future__ import annotations

from typing import Literal, TypeAlias

from silva.train.registry.version import PolicyVersion
from silva.tree import Record

What: TypeAlias = Literal["begun", "registered", "promoted", "rolled back", "rejected", "published"]


class Event(Record, frozen=True, kw_only=True):
    """One event. `number` is that of the version it is about; `record` the version itself where it is new (`begun`,
    `registered`). `before` is the head that a promotion or rollback took the place of. `route` is the model name at the
    gateway for `published`. `at` is Unix seconds, `by` who did it, `note` why."""

    what: What
    number: int
    at: float
    by: str = ""
    note: str = ""
    before: int | None = None
    route: str = ""
    record: PolicyVersion | None = None
