"""What is pending: sessions of which something arrived that is not made into trajectories yet.

Their arrivals are at hand while memory allows; else they are read from the lake again when their turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from silva.lake.entry import Arrival

MEMORY = 128 << 20
"""Bytes of arrivals that are kept at hand."""
KNOWN = 200_000
"""Traces whose session is remembered after it was made."""


class Waiting:
    """One session that waits. `arrivals`: all there is of it, or None where it must be read from the lake."""

    __slots__ = ("arrivals", "count", "key", "last", "rooted", "size", "traces")

    def __init__(self, key: str, whole: bool) -> None:
        self.key = key
        self.traces: set[str] = set()
        self.arrivals: list[Arrival] | None = [] if whole else None
        self.size = self.count = 0
        self.last = 0.0
        self.rooted = False


class Pending:
    """Sessions by key. Not safe for several threads."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._session: dict[str, str] = {}
        self._made: set[str] = set()
        self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, arrivals: Iterable[Arrival], now: float) -> None:
        """Something arrived, at `now` of the monotonic clock."""
        for each in arrivals:
            waiting = self._of(each)
            waiting.traces.add(each.trace)
            waiting.count += 1
            waiting.last = now
            waiting.rooted = waiting.rooted or each.root
            if waiting.arrivals is not None:
                waiting.arrivals.append(each)
                waiting.size += each.size
                self._size += each.size
        if self._size > MEMORY:
            for waiting in self._waiting.values():  # who has waited longest first; some at once, as each look costs
                self._forget(waiting)
                if self._size <= MEMORY * 3 // 4:
                    break

    def remember(self, key: str, traces: Sequence[str], *, made: bool) -> None:
        """A session of an earlier server."""
        for trace in traces:
            self._session[trace] = key
        if made:
            self._made.add(key)

    def reopen(self, key: str, traces: Sequence[str]) -> None:
        """A session of an earlier server is to be made, now."""
        waiting = self._waiting[key] = Waiting(key, whole=False)
        waiting.traces.update(traces)
        waiting.rooted = True

    def due(self, now: float, settle: float, quiet: float) -> list[Waiting]:
        """The sessions whose turn has come, the longest quiet first."""
        found = [each for each in self._waiting.values() if now - each.last >= (settle if each.rooted else quiet)]
        return sorted(found, key=lambda each: each.last)

    def done(self, waiting: Waiting, count: int) -> None:
        """A session was made of its first `count` arrivals."""
        self._made.add(waiting.key)
        self._forget(waiting)
        if waiting.count == count:
            self._waiting.pop(waiting.key, None)
        if len(self._session) > KNOWN:  # whoever is asked after later is read from the lake
            open_traces = {trace for each in self._waiting.values() for trace in each.traces}
            self._session = {trace: key for trace, key in self._session.items() if trace in open_traces}

    def _of(self, arrival: Arrival) -> Waiting:
        key = self._session.get(arrival.trace)
        if arrival.conversation and key != arrival.conversation and key in (None, arrival.trace):
            key = self._renamed(arrival.trace, key, arrival.conversation)
        key = key or arrival.trace
        self._session[arrival.trace] = key
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = Waiting(key, whole=key not in self._made)
            waiting.rooted = key in self._made  # what comes late is not waited for again
        return waiting

    def _renamed(self, trace: str, key: str | None, conversation: str) -> str:
        """A trace turns out to belong to a conversation."""
        before = self._waiting.pop(key, None) if key is not None else None
        if key in self._made:
            self._made.add(conversation)  # its notes are to be read
        if before is not None:
            whole = conversation not in self._made and before.arrivals is not None
            waiting = self._waiting.setdefault(conversation, Waiting(conversation, whole))
            waiting.traces |= before.traces
            waiting.count += before.count
            waiting.rooted = waiting.rooted or before.rooted
            waiting.last = max(waiting.last, before.last)
            if waiting.arrivals is not None and before.arrivals is not None:
                waiting.arrivals += before.arrivals
                waiting.size += before.size
            else:
                self._forget(waiting)
                self._size -= before.size
        return conversation

    def _forget(self, waiting: Waiting) -> None:
        self._size -= waiting.size
        waiting.size, waiting.arrivals = 0, None
