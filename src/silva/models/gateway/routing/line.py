"""The line in front of a route's backends: who is next when runs compete.

    run A (share 1): a1 a2 a3 … a9999      virtual time ──▶
    run B (share 1): b1                    served: a1 b1 a2 a3 …

Every run with something waiting has a *tag*, the virtual time at which its next request is due (self-clocked fair
queueing); the smallest is served and becomes the virtual time. A run's tag is `1 / share` after its last, or after the
current virtual time when it comes.

Specification:
- Of two runs with requests waiting, whatever each has waiting, served counts differ from their shares by about one
  request each.
- A run that comes waits for about one request of every other run of its share; leaving and returning gains nothing.
- Within a run, requests are served in order of arrival. One that is taken out is not charged.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    """A bounded line of waiting items, fair between runs.

    Args:
        bound: how many may wait at once.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._runs: dict[str, dict[int, T]] = {}
        self._tags: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self._now = 0.0
        self._places = self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    @property
    def full(self) -> bool:
        """Whether nothing more may wait."""
        return self._waiting >= self._bound

    def push(self, run: str, item: T, share: float = 1.0) -> int:
        """Join the line; gives the place that `take_out` needs. The run's latest share holds from now on."""
        if run not in self._runs:
            self._runs[run], self._tags[run] = {}, self._now + 1.0 / share
        self._shares[run] = share
        self._places += 1
        self._waiting += 1
        self._runs[run][self._places] = item
        return self._places

    def pop(self) -> T | None:
        """Take the next one out and charge its run; None where nobody waits."""
        if not self._runs:
            return None
        run = min(self._tags, key=self._tags.__getitem__)
        self._now = self._tags[run]
        self._tags[run] += 1.0 / self._shares[run]
        place = next(iter(self._runs[run]))
        item = self._runs[run][place]
        self.take_out(run, place)
        return item

    def take_out(self, run: str, place: int) -> None:
        """Leave the line, if it still waits."""
        if place not in self._runs.get(run, ()):
            return
        del self._runs[run][place]
        self._waiting -= 1
        if not self._runs[run]:
            del self._runs[run], self._tags[run], self._shares[run]

    def items(self) -> list[T]:
        """All that wait, in no order that matters."""
        return [item for waiting in self._runs.values() for item in waiting.values()]
