"""The rules of one job, pure: no clock, no disk, no threads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

from silva.train.buffer.config import JobConfig
from silva.train.buffer.events import Abandoned, Committed, Delivered, Entered, Event, Rewound, Started
from silva.train.buffer.group import Admission, Header, Receipt, State, Status, Withheld
from silva.train.buffer.refused import Refused


class Controller:
    """What may be grown, what is trained next, and what is too stale.

    Words. The policy is at *version* v; a *step* trains at most B = `groups_per_step` groups at one version and makes
    the next. The *staleness* of a group is v minus the oldest version that drew any of it, and at least 0 (Safactory,
    section 5.3). η is `bound`. A group is *in flight* (started, not here yet), *ready*, *taken* (handed out, not
    committed), *released* (trained, never handed out again) or *withheld*; it is in one state at a time, and of each id
    there is one group for ever. *Outstanding* are those in flight, ready and taken. The *deadline* of a group is the
    last version it may be trained at: its oldest version + η, or, in flight, the version it was started at + η.

    States.   start ─▶ in flight ─▶ enter ─▶ ready ─▶ take ─▶ taken ─▶ commit ─▶ released
                          └ abandon ─▶ forgotten   └ deadline passed ─▶ withheld (for good)

    Pace. A group may start while outstanding + (groups committed at v) < (η + 1) B. That is AReaL's rule (arXiv
    2505.24298, section 5.1: ⌊(N − 1) / B⌋ ≤ v + η for N groups generated in all), counted over what is still here, so
    that groups which were abandoned or withheld make room again. With η = 1 one step's groups are in flight while
    another's are trained, which is prime-rl's overlap by one step; with η = 0 the two take turns. `most_groups` may
    be stricter. A group that nobody started enters if there is room for it to start, else it is refused as `full`.

    Order. Hand-outs are numbered 1, 2, 3 … and never renumbered; `take(after)` of numbers already given returns the
    same groups. A step takes no more than B; the next begins with its version. Of the ready groups the first that came
    (`fifo`) or the one of the newest version (`freshest`) is next, unless then more groups would be due by some
    version d than are still to be trained up to d; in that case the next is chosen among those due by d. Where those
    are all still in flight, `stragglers` says whether the step waits for them or goes on.

    Promises, for every sequence of calls:
    1. No group is handed out for the first time with a staleness above η.
    2. What entered is in exactly one of ready, taken, released, withheld; hand-outs are distinct.
    3. After any start, outstanding + committed at v ≤ (η + 1) B.
    4. If every group was started, is drawn by versions not older than the one it was started at and comes in the end,
       if every step trains B groups, and `stragglers` is `wait`, then nothing is ever withheld; and if nothing is in
       flight, a step that is not full gets one of the ready groups. (By the rule of pace no more groups are due by
       v + η than are still to be trained up to then; by the rule of order that stays so for every earlier d.)
    5. Replaying the events gives an equal controller.

    A trainer that resumes from a checkpoint older than its last commit calls `rewind`: the numbers after its cursor are
    handed out again, at the versions they were first taken for. `commit(checkpointed=…)` says how far back that may go.

    Every method that changes something returns the event to keep, already applied, or None where nothing changed.
    """

    def __init__(self, terms: JobConfig) -> None:
        self.terms = terms
        self.version = self.newest = terms.first_version
        self.committed = 0
        self.checkpointed = 0
        self.abandoned = 0
        self.in_flight: dict[str, int] = {}
        self.ready: dict[str, None] = {}
        self.withheld: dict[str, None] = {}
        self.headers: dict[str, Header] = {}
        self.sequences: dict[str, int] = {}
        self.delivered: list[str] = []
        self._at: list[int] = []  # the version each hand-out is for; never falls

    def permits(self) -> int:
        """How many more groups may start now."""
        room = (self.terms.bound + 1) * self.terms.groups_per_step - self._committed_now()
        if self.terms.most_groups is not None:
            room = min(room, self.terms.most_groups)
        return max(0, room - self._outstanding())

    def status(self) -> Status:
        """The job at a glance."""
        bound = self.terms.bound
        return Status(
            version=self.version,
            bound=bound,
            groups_per_step=self.terms.groups_per_step,
            permits=self.permits(),
            in_flight=len(self.in_flight),
            late=sum(started + bound < self.version for started in self.in_flight.values()),
            ready=len(self.ready),
            taken=len(self.delivered) - self.committed,
            withheld=len(self.withheld),
            entered=len(self.sequences),
            delivered=len(self.delivered),
            committed=self.committed,
            checkpointed=self.checkpointed,
            abandoned=self.abandoned,
        )

    def state(self, name: str) -> State | None:
        """Where a group is; None for one that never entered."""
        if name not in self.sequences:
            return None
        if name in self.ready:
            return "ready"
        if name in self.withheld:
            return "withheld"
        return "taken" if name in self.headers else "released"

    def staleness(self, number: int) -> int:
        """Of a hand-out that is not released, at the version it is for."""
        return max(0, self._at[number - 1] - self.headers[self.delivered[number - 1]].oldest)

    def version_of(self, number: int) -> int:
        """The version a hand-out is for."""
        return self._at[number - 1]

    def withheld_after(self, sequence: int, most: int) -> list[Withheld]:
        """Withheld groups whose sequence is above `sequence`, lowest first."""
        found = sorted((self.sequences[name], name) for name in self.withheld)
        return [Withheld(sequence=at, header=self.headers[name]) for at, name in found if at > sequence][:most]

    def start(self, names: Sequence[str]) -> tuple[Admission, Event | None]:
        """Let as many of these start as may, in order; those in flight already are admitted again."""
        room = self.permits()
        admitted: list[str] = []
        known: list[str] = []
        new: dict[str, None] = {}
        for name in names:
            if name in self.sequences:
                known.append(name)
            elif name in self.in_flight or name in new:
                admitted.append(name)
            elif room > len(new):
                new[name] = None
                admitted.append(name)
        event = self._applied(Started(tuple(new))) if new else None
        return Admission(admitted=tuple(dict.fromkeys(admitted)), known=tuple(known)), event

    def abandon(self, names: Iterable[str]) -> tuple[int, Event | None]:
        """Give up groups in flight; return how many of these were."""
        found = tuple(name for name in dict.fromkeys(names) if name in self.in_flight)
        return len(found), self._applied(Abandoned(found)) if found else None

    def check(self, header: Header) -> Receipt | None:
        """Whether this group may enter; the receipt of one that has.

        Raises:
            Refused: `malformed` for another size or missing rewards, `conflict` for a version that is not yet,
                `full` without room.
        """
        name, terms = header.id, self.terms
        if name in self.sequences:
            return Receipt(id=name, sequence=self.sequences[name], state=self.state(name) or "released", again=True)
        if terms.group_size not in (None, header.size):
            samples = f"{header.size} sample{'s' if header.size > 1 else ''}"
            raise Refused("malformed", f"group {name}: has {samples}, the job's groups have {terms.group_size}")
        if terms.rewards and None in header.rewards:
            index = header.rewards.index(None)
            raise Refused(
                "malformed", f"group {name}: sample {index} has no reward (the job can allow it: rewards=false)"
            )
        if max(header.versions) > self.newest + 1:
            raise Refused(
                "conflict",
                f"group {name}: drawn by version {max(header.versions)}, but the job is at {self.version}; "
                "commit each version when it is published",
            )
        if self._is_stale(header):
            if len(self.withheld) >= terms.most_withheld:
                raise Refused("conflict", f"group {name}: too stale, and {len(self.withheld)} such are kept already")
        elif name not in self.in_flight and not self.permits():
            raise Refused("full", f"group {name}: no room for a group that was not started; try again", 1.0)
        return None

    def enter(self, header: Header) -> tuple[Receipt, Event | None]:
        """A group is here.

        Raises:
            Refused: see `check`.
        """
        known = self.check(header)
        if known is not None:
            return known, None
        event = self._applied(Entered(header))
        name = header.id
        return Receipt(id=name, sequence=self.sequences[name], state=self.state(name) or "ready"), event

    def take(self, after: int, count: int) -> tuple[range, Event | None]:
        """The numbers of the next hand-outs behind cursor `after`, at most `count`; empty where none is ready.

        Raises:
            Refused: `conflict` for a cursor that is committed or not reached, or where the step has all its groups.
        """
        if not self.committed <= after <= len(self.delivered):
            raise Refused(
                "conflict",
                f"cursor {after}: hand-outs {self.committed} to {len(self.delivered)} can be taken from"
                + ("; rewind to a checkpoint first" if after < self.committed else ""),
            )
        end = bisect_right(self._at, self.version)
        event = None
        if after + count > end and end == len(self.delivered):
            room = self.terms.groups_per_step - (end - bisect_left(self._at, self.version))
            chosen = self._choose(min(after + count - end, room))
            if chosen:
                event = self._applied(Delivered(chosen))
                end += len(chosen)
            elif room <= 0 and after >= end:
                raise Refused("conflict", self._complete())
        elif after >= end and count > 0:
            raise Refused("conflict", self._complete())
        return range(after + 1, min(after + count, end) + 1), event

    def commit(self, cursor: int, version: int | None = None, checkpointed: int | None = None) -> Event | None:
        """All hand-outs up to `cursor` are trained.

        Args:
            cursor: a hand-out's number, not below the last one committed.
            version: the policy's version from now on: as before (None), or the next.
            checkpointed: nothing up to here will be asked for again; None for `cursor`.

        Raises:
            Refused: `conflict` for a cursor or version out of turn.
        """
        version = self.version if version is None else version
        checkpointed = cursor if checkpointed is None else checkpointed
        if not self.committed <= cursor <= len(self.delivered):
            raise Refused("conflict", f"commit {cursor}: possible are {self.committed} to {len(self.delivered)}")
        if cursor and self._at[cursor - 1] > self.version:
            raise Refused("conflict", f"commit {cursor}: it is of a later step than version {self.version}")
        if version not in (self.version, self.version + 1):
            raise Refused(
                "conflict", f"commit of version {version}: the job is at {self.version}; versions rise by one"
            )
        end = bisect_right(self._at, self.version)
        if version > self.version and cursor < end:
            raise Refused("conflict", f"commit of version {version}: hand-outs up to {end} were taken for this step")
        if not self.checkpointed <= checkpointed <= cursor:
            raise Refused("conflict", f"checkpointed {checkpointed}: possible are {self.checkpointed} to {cursor}")
        if (cursor, version, checkpointed) == (self.committed, self.version, self.checkpointed):
            return None
        return self._applied(Committed(cursor, version, checkpointed))

    def rewind(self, cursor: int, version: int) -> Event | None:
        """Go back to where the trainer's checkpoint is.

        Raises:
            Refused: `conflict` where that is released, was never committed, or is not where this version began.
        """
        if (cursor, version) == (self.committed, self.version):
            return None
        if not self.checkpointed <= cursor <= self.committed:
            raise Refused("conflict", f"rewind to {cursor}: possible are {self.checkpointed} to {self.committed}")
        first = self._at[cursor - 1] if cursor else self.terms.first_version
        last = self._at[cursor] if cursor < len(self._at) else self.version
        if not first <= version <= min(last, self.version):
            raise Refused(
                "conflict", f"rewind to {cursor}: the policy was at {first} to {last} there, not at {version}"
            )
        return self._applied(Rewound(cursor, version))

    def apply(self, event: Event) -> None:
        """Do what an event says; for events that this class made, in the order it made them."""
        match event:
            case Started(ids):
                self.in_flight.update(dict.fromkeys(ids, self.version))
            case Abandoned(ids):
                for name in ids:
                    del self.in_flight[name]
                self.abandoned += len(ids)
            case Entered(header):
                self.in_flight.pop(header.id, None)
                self.sequences[header.id] = len(self.sequences) + 1
                self.headers[header.id] = header
                (self.withheld if self._is_stale(header) else self.ready)[header.id] = None
            case Delivered(ids):
                for name in ids:
                    del self.ready[name]
                    self.delivered.append(name)
                    self._at.append(self.version)
            case Committed(cursor, version, checkpointed):
                for name in self.delivered[self.checkpointed : checkpointed]:
                    del self.headers[name]
                self.committed, self.version, self.checkpointed = cursor, version, checkpointed
                self.newest = max(self.newest, version)
                for name in [name for name in self.ready if self._is_stale(self.headers[name])]:
                    del self.ready[name]
                    self.withheld[name] = None
            case Rewound(cursor, version):
                self.committed, self.version = cursor, version

    def _applied(self, event: Event) -> Event:
        self.apply(event)
        return event

    def _is_stale(self, header: Header) -> bool:
        return self.version - header.oldest > self.terms.bound

    def _committed_now(self) -> int:
        return max(0, self.committed - bisect_left(self._at, self.version))

    def _outstanding(self) -> int:
        return len(self.in_flight) + len(self.ready) + len(self.delivered) - self.committed

    def _complete(self) -> str:
        return f"the step at version {self.version} has all its groups: commit them with version {self.version + 1}"

    def _choose(self, count: int) -> tuple[str, ...]:
        bound, per_step, version = self.terms.bound, self.terms.groups_per_step, self.version
        ready: dict[int, deque[str]] = {}
        for name in self.ready:  # in the order they came
            ready.setdefault(self.headers[name].oldest + bound, deque()).append(name)
        due = {deadline: len(names) for deadline, names in ready.items()}
        for started in self.in_flight.values():
            if started + bound >= version:
                due[started + bound] = due.get(started + bound, 0) + 1
        taken = len(self.delivered) - bisect_left(self._at, version)
        chosen: list[str] = []
        while len(chosen) < count:
            tight = _tight(due, version, per_step, taken + len(chosen))
            deadline = self._next(ready, tight)
            if deadline is None:
                break
            chosen.append(ready[deadline].popleft())
            due[deadline] -= 1
            if not ready[deadline]:
                del ready[deadline]
        return tuple(chosen)

    def _next(self, ready: dict[int, deque[str]], tight: int | None) -> int | None:
        """The deadline whose first group is next."""
        if tight is None:
            allowed = list(ready)
        else:
            allowed = [deadline for deadline in ready if deadline <= tight]
            if not allowed and self.terms.stragglers == "withhold":
                allowed = [min(ready)] if ready else []
        if not allowed:
            return None
        if self.terms.order == "freshest":
            return max(allowed)
        return min(allowed, key=lambda deadline: self.sequences[ready[deadline][0]])


def _tight(due: dict[int, int], version: int, per_step: int, taken: int) -> int | None:
    """The first version up to which as many groups are due as can still be trained; None where there is slack."""
    total = 0
    for deadline in sorted(due):
        total += due[deadline]
        if total and total >= (deadline - version + 1) * per_step - taken:
            return deadline
    return None
