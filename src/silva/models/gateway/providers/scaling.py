"""How many processes there should be, and when a crashed one is started again: pure rules, told the time.

    load ─ ceil(load / target), between least and most ─▶ desired ─ highest of the last `idle` seconds ─▶ wanted

Specification of `Scaling`:
- Up at once: what is wanted is never below what the load desires now; one waiting request wants one process.
- Down late: wanted falls only to the highest that was desired during the last `idle` seconds, so that a load that comes
  and goes within that time stops and starts nothing.
- `least <= wanted <= most`.

Specification of `Restarts`:
- After the n-th crash in a row nothing is started for `FIRST * 2^(n-1)` seconds, at most `LONGEST`.
- After one crash requests still wait for the restart; after more in a row they are told instead (`hopeful`).
- A process that served for `STEADY` seconds before it crashed ends the row.
"""

from __future__ import annotations

import math
from collections import deque

FIRST = 0.5
LONGEST = 60.0
STEADY = 30.0


class Scaling:
    """How many processes are wanted.

    Args:
        least: never fewer.
        most: never more, at least `least`.
        target: requests, waiting or in flight, per process.
        idle: seconds of less load before there are fewer.
    """

    def __init__(self, least: int, most: int, target: int, idle: float) -> None:
        self.least = least
        self.most = max(most, least)
        self.target = target
        self.idle = idle
        self._peaks: deque[tuple[float, int]] = deque()

    def wanted(self, load: int, now: float) -> int:
        """The load is so much now; how many processes there should be."""
        desired = min(max(math.ceil(load / self.target), self.least), self.most)
        # Highest first: a peak matters only until it is too old or a later one is as high.
        while self._peaks and self._peaks[-1][1] <= desired:
            self._peaks.pop()
        self._peaks.append((now, desired))
        while self._peaks[0][0] < now - self.idle:
            self._peaks.popleft()
        return self._peaks[0][1]


class Restarts:
    """When a process may be started after crashes."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self.not_before = -math.inf

    def crashed(self, lived: float, now: float) -> None:
        """One ended by itself after it had served for `lived` seconds (0 where it never came up)."""
        self.in_a_row = 1 if lived >= STEADY else self.in_a_row + 1
        self.not_before = now + min(LONGEST, FIRST * 2.0 ** (self.in_a_row - 1))

    @property
    def hopeful(self) -> bool:
        """Whether another start is likely to help: one crash is a mishap, more in a row are a reason to say so."""
        return self.in_a_row < 2

    def may_start(self, now: float) -> bool:
        """Whether one may be started now."""
        return now >= self.not_before
