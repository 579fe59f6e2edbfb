"""The line in front of a route's backends: who is next when runs compete (self-clocked fair queueing).

    run A (share 1): a1 a2 a3 … a9999      virtual time ──▶
    run B (share 1): b1                    served: a1 b1 a2 a3 …

Every run with something waiting has a *tag*, the virtual time at which its next request is due; the smallest tag is
served and becomes the virtual time. A run's tag is `1 / share` after its last, or after the current virtual time when
it comes, so that tags of busy runs advance in proportion to their shares.

Specification:
- Of two runs with requests waiting, whatever each has waiting, served counts differ from their shares by about one
  request each: (served A / share A) - (served B / share B) stays within 1 / share A + 1 / share B.
- A run that comes waits for about one request of every other run of its share, however long their lines are; leaving
  and returning gains nothing, and neither does an endless row of new runs: who waits is due in bounded time.
- Within a run, requests are served in order of arrival.
- A waiting request can be taken out; its run is not charged.
- `push` and `pop` cost O(log runs), `take_out` O(1). At most `bound` wait.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class _Run(Generic[T]):
    __slots__ = ("name", "share", "tag", "waiting")

    def __init__(self, name: str, tag: float) -> None:
        self.name = name
        self.tag = tag
        self.share = 1.0
        self.waiting: OrderedDict[int, T] = OrderedDict()


class Line(Generic[T]):
    """A bounded line of waiting items, fair between runs.

    Args:
        bound: how many may wait at once.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._runs: dict[str, _Run[T]] = {}
        self._heap: list[tuple[float, int, _Run[T]]] = []
        self._virtual = 0.0
        self._places = 0
        self._turns = 0
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    @property
    def full(self) -> bool:
        """Whether nothing more may wait."""
        return self._waiting >= self.bound

    def waiting(self, run: str) -> int:
        """How many requests of a run wait."""
        known = self._runs.get(run)
        return 0 if known is None else len(known.waiting)

    def push(self, run: str, item: T, share: float = 1.0) -> int:
        """Join the line; gives the place that `take_out` needs. The run's latest share holds from now on.

        Raises:
            OverflowError: the line is full.
        """
        if self.full:
            raise OverflowError(f"{self.bound} requests wait already")
        known = self._runs.get(run)
        if known is None:
            known = self._runs[run] = _Run(run, self._virtual + 1.0 / share)
            self._queue(known)
        known.share = share
        self._places += 1
        known.waiting[self._places] = item
        self._waiting += 1
        return self._places

    def pop(self) -> T | None:
        """Take the next one out and charge its run; None where nobody waits."""
        while self._heap:
            tag, _, run = heappop(self._heap)
            if not run.waiting:  # all of them were taken out
                del self._runs[run.name]
                continue
            _, item = run.waiting.popitem(last=False)
            self._waiting -= 1
            self._virtual = tag
            if run.waiting:
                run.tag = tag + 1.0 / run.share
                self._queue(run)
            else:
                del self._runs[run.name]
            return item
        return None

    def take_out(self, run: str, place: int) -> bool:
        """Leave the line; False where it is not waiting any more."""
        known = self._runs.get(run)
        if known is None or known.waiting.pop(place, None) is None:
            return False
        self._waiting -= 1
        if not self._waiting:  # nobody is owed anything
            self._runs.clear()
            self._heap.clear()
        return True

    def items(self) -> list[T]:
        """All that wait, in no order that matters."""
        return [item for run in self._runs.values() for item in run.waiting.values()]

    def _queue(self, run: _Run[T]) -> None:
        self._turns += 1
        heappush(self._heap, (run.tag, self._turns, run))
