"""A line of policies: what its events add up to, and which event may come next. Pure: no I/O, no clock.

| event | of a version that is | makes it | and the head |
|---|---|---|---|
| begun | new, number 0 | promoted | is 0 |
| registered | new, the next number | candidate | stays |
| promoted | candidate, promoted before, rolled back | promoted | is it |
| rolled back | the head | rolled back | is its parent, or the version named, unless that is rejected |
| rejected | candidate, rolled back, promoted before | rejected | stays: the head itself is rolled back first |
| published | anything but rejected | as it was | stays |

The head is the version that is to be served. A version promoted before stays `promoted`: it was good once.
"""

from __future__ import annotations

from collections.abc import Iterable

from silva.errors import StoreError, UsageError
from silva.train.registry.event import Event
from silva.train.registry.version import Base, PolicyVersion, Status, line_and_number


class Line:
    """One line. `versions` and `statuses` are indexed by number; `events` is everything that happened, oldest first."""

    def __init__(self, name: str, events: Iterable[Event] = ()) -> None:
        self.name = name
        self.head = 0
        self.versions: list[PolicyVersion] = []
        self.statuses: list[Status] = []
        self.events: list[Event] = []
        for event in events:
            self.apply(event)

    @property
    def begun(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.versions)

    @property
    def base(self) -> Base:
        """What the line grows from; it must have begun."""
        return self.versions[0].base

    def status(self, version: PolicyVersion) -> Status:
        """How a version stands."""
        return self.statuses[version.number]

    def is_head(self, version: PolicyVersion) -> bool:
        """Whether it is the version to be served."""
        return version.number == self.head

    def find(self, name: str) -> PolicyVersion:
        """The version of a name `LINE-NUMBER`; of the line's own name, the head; of the base's label, number 0.

        Raises:
            UsageError: there is none; the line says which there are.
        """
        number = self.number(name)
        if number is None:
            raise UsageError(f"there is no policy version {name[:120]!r}; line {self.name} has {self._names()}")
        return self.versions[number]

    def number(self, name: str) -> int | None:
        """The number of the version of that name, as a node's `policy_version` has it; None where it is not of this
        line. Staleness is the difference of two."""
        if not self.versions:
            return None
        if name == self.name:
            return self.head
        if name == self.base.label:
            return 0
        parts = line_and_number(name)
        known = parts is not None and parts[0] == self.name and parts[1] < len(self.versions)
        return parts[1] if parts is not None and known and name == self.versions[parts[1]].name else None

    def keyed(self, key: str) -> PolicyVersion | None:
        """The version that was registered under a caller's key."""
        return next((version for version in self.versions if key and version.key == key), None)

    def history(self, version: PolicyVersion) -> list[Event]:
        """What happened to one version, oldest first."""
        return [event for event in self.events if version.number in (event.number, event.before)]

    def rollback_target(self, version: PolicyVersion | None) -> PolicyVersion:
        """What a rollback of the head goes to.

        Args:
            version: the version named, or None for the head's parent.

        Raises:
            UsageError: there is nothing to go back to, or that was rejected.
        """
        head = self.versions[self.head]
        if version is None and not head.parent:
            raise UsageError(f"{head.name} is the beginning of line {self.name}: there is nothing to roll back to")
        target = version or self.find(head.parent)
        if self.is_head(target):
            raise UsageError(f"{target.name} is the head already: name the version to go back to")
        if self.status(target) == "rejected":
            raise UsageError(f"{target.name} was rejected: name another version to go back to")
        return target

    def check(self, event: Event) -> None:
        """Check that an event may come next.

        Raises:
            UsageError: it may not; one line says why.
        """
        if event.what in ("begun", "registered"):
            fits = (event.what == "begun") == (not self.versions) and event.number == len(self.versions)
            if event.record is None or event.record.number != event.number or not fits:
                raise UsageError(f"line {self.name}: the next version is {self.name}-{len(self.versions)}")
            return
        if not 0 <= event.number < len(self.versions):
            raise UsageError(f"there is no policy version {self.name}-{event.number}; there are {self._names()}")
        version, status = self.versions[event.number], self.statuses[event.number]
        if event.what == "rolled back":
            if event.before != self.head:
                raise UsageError(f"the head of line {self.name} is {self.versions[self.head].name} by now")
            self.rollback_target(version)
        elif event.what == "rejected":
            if event.number == self.head:
                raise UsageError(f"{version.name} is the head: roll it back first (silva policy rollback {self.name})")
        elif status == "rejected":
            verb = "promoted" if event.what == "promoted" else "published"
            raise UsageError(f"{version.name} was rejected and cannot be {verb}: register it anew")

    def apply(self, event: Event) -> None:
        """Add an event.

        Raises:
            StoreError: it cannot follow: the ledger was written by something else.
        """
        try:
            self.check(event)
        except UsageError as error:
            number = len(self.events) + 1
            raise StoreError(
                f"policy line {self.name}: event {number} cannot follow those before it: {error}"
            ) from error
        if event.record is not None:
            self.versions.append(event.record)
            self.statuses.append("promoted" if event.what == "begun" else "candidate")
        elif event.what == "promoted":
            self.statuses[event.number] = "promoted"
            self.head = event.number
        elif event.what == "rolled back":
            self.statuses[self.head] = "rolled back"
            self.statuses[event.number] = "promoted"
            self.head = event.number
        elif event.what == "rejected":
            self.statuses[event.number] = "rejected"
        self.events.append(event)

    def _names(self) -> str:
        names = [version.name for version in self.versions]
        return ", ".join(names if len(names) <= 10 else [*names[:3], "…", *names[-6:]]) or "none yet"
