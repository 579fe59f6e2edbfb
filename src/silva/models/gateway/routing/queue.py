"""Requests that wait for a place: their futures, their bounds in time, and who gets the next place.

    push ─▶ Line (fair between runs) ── a place is free ──▶ given
                  │                 └── only where it was tried already ─▶ stuck: first when another has room
                  └── too long, its deadline, no backend for too long, all held or tried ─▶ Refused

One timer for all: at the earliest bound, or when a breaker or a Retry-After may let somebody pass again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from silva.models.gateway.routing.admission import Admission, DrainRate, Refused
from silva.models.gateway.routing.backend import BackendState
from silva.models.gateway.routing.fairness import Line
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.lease import Lease

Give = Callable[[Lease, BackendState, float], None]


class Queue:
    """See the module. One event loop.

    Args:
        name: the route's, for messages.
        fleet: its backends.
        admission: the bounds in time.
        bound: how many may wait.
        rate: how fast requests end.
        give: gives a lease its place.
        admits: whether places are given now.
    """

    def __init__(
        self,
        name: str,
        fleet: Fleet,
        admission: Admission,
        bound: int,
        rate: DrainRate,
        give: Give,
        admits: Callable[[], bool],
    ) -> None:
        self.refused: dict[str, int] = {}
        self._name = name
        self._fleet = fleet
        self._admission = admission
        self._rate = rate
        self._give = give
        self._admits = admits
        self._line: Line[Lease] = Line(bound)
        self._stuck: dict[int, Lease] = {}
        self._bounds: list[tuple[float, int, Lease]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._closed = False
        fleet.attach(self.look, self.__len__)

    def __len__(self) -> int:
        return len(self._line) + len(self._stuck)

    async def wait(self, lease: Lease) -> None:
        """Wait until the lease has a place.

        Raises:
            Refused: it gets none, and why.
        """
        now = self._fleet.now()
        refusal = self._hopeless(lease, now)
        if refusal is not None:
            raise self._counted(refusal)
        try:
            rate = self._rate.per_second(now)
            patience = self._admission.patience(self._line.full, lease.deadline, len(self), rate, now)
        except Refused as refusal:
            raise self._counted(refusal) from None
        lease.future = future = asyncio.get_running_loop().create_future()
        lease.until, lease.why = patience.until, patience.why
        lease.place = self._line.push(lease.run, lease, lease.share)
        self._bound(lease)
        self.look()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.exception()  # seen, so that the loop does not complain of it
            if lease.held:  # its place came in the same moment
                lease.end()
            else:
                self._leave(lease)
            raise

    def look(self) -> None:
        """Give places to those who wait, as far as there are any; refuse those for whom there will be none."""
        if not self:
            return
        now = self._fleet.now()
        if self._admits():
            for lease in [*self._stuck.values()]:
                self._place(lease, now)
            while self._line and self._fleet.choose(now) is not None:
                lease = self._line.pop()
                if lease is not None:
                    self._stuck[lease.place] = lease
                    self._place(lease, now)
            if self:
                self._refuse_hopeless(now)
        self._set_timer(now)

    def close(self) -> None:
        """Refuse whoever waits, and whoever comes."""
        self._closed = True
        for lease in self._all():
            self._refuse(lease, self._going())
        self._set_timer(self._fleet.now())

    def _place(self, lease: Lease, now: float) -> None:
        """Give one of the stuck its place, or leave it where it is."""
        state = self._fleet.choose(now, lease.session, lease.exclude)
        if state is None:
            return
        del self._stuck[lease.place]
        self._give(lease, state, now)
        future, lease.future = lease.future, None
        if future is not None and not future.done():
            future.set_result(None)

    def _hopeless(self, lease: Lease, now: float) -> Refused | None:
        """Why a lease need not wait, or None where it may."""
        if self._closed:
            return self._going()
        if not self._admits():
            return None
        why = self._fleet.why_nothing(now, lease.exclude)
        if why == "exhausted" and not self._fleet.expected:
            return Refused("exhausted", f"every backend of model {self._name} that is up was tried")
        return self._absence(now) if why == "absent" else None

    def _absence(self, now: float) -> Refused | None:
        """The refusal where no backend has been there for too long."""
        since = self._fleet.absent_since
        if since is None or now < since + self._admission.absent_seconds:
            return None
        told = self._fleet.trouble()
        seconds = min(max(self._fleet.returns(now) - now, 1.0), self._fleet.health.every)
        return Refused("absent", f"no backend of model {self._name} is up" + (f" ({told})" if told else ""), seconds)

    def _refuse_held(self, now: float) -> None:
        """Those who may not wait until a backend lets itself be asked again are told at once when that is."""
        again = self._fleet.returns(now)
        if self._fleet.expected or again == math.inf:
            return
        while self._bounds and (self._bounds[0][2].future is None or self._bounds[0][0] < again):
            _, _, lease = heappop(self._bounds)
            if lease.future is not None:
                what = f"the backends of model {self._name} asked to be left alone"
                seconds = again - now
                self._refuse(lease, Refused("held", f"{what}; come again in {math.ceil(seconds)} s", seconds))

    def _refuse_hopeless(self, now: float) -> None:
        why = self._fleet.why_nothing(now)
        if why == "held":
            self._refuse_held(now)
            return
        if why == "absent":
            if self._absence(now) is not None:
                for lease in self._all():
                    self._refuse(lease, self._absence(now))
            return
        for lease in [*self._stuck.values()]:
            self._refuse(lease, self._hopeless(lease, now))

    def _expire(self) -> None:
        """The timer: some have waited as long as they may."""
        self._timer, self._timer_at = None, math.inf
        now = self._fleet.now()
        while self._bounds and (self._bounds[0][2].future is None or self._bounds[0][0] <= now):
            _, _, lease = heappop(self._bounds)
            if lease.future is None:
                continue
            if lease.why == "too_long" and (not self._admits() or self._fleet.expected):
                # Waiting for a change of version or a first backend is nobody's crowd: the bound starts anew.
                rest = self._admission.patience(False, lease.deadline, 0, 0.0, now)
                lease.until, lease.why = rest.until, rest.why
                self._bound(lease)
            else:
                self._refuse(lease, self._admission.refusal(lease.why, len(self), self._rate.per_second(now)))
        self.look()

    def _bound(self, lease: Lease) -> None:
        if len(self._bounds) > 2 * len(self) + 64:  # most of them have left
            self._bounds = [entry for entry in self._bounds if entry[2].future is not None]
            heapify(self._bounds)
        if lease.until < math.inf:
            heappush(self._bounds, (lease.until, lease.place, lease))

    def _refuse(self, lease: Lease, refusal: Refused | None) -> None:
        if refusal is None:
            return
        future = lease.future
        self._leave(lease)
        if future is not None and not future.done():
            future.set_exception(self._counted(refusal))

    def _leave(self, lease: Lease) -> None:
        lease.future = None
        if self._stuck.pop(lease.place, None) is None:
            self._line.take_out(lease.run, lease.place)

    def _all(self) -> list[Lease]:
        return [*self._stuck.values(), *self._line.items()]

    def _counted(self, refusal: Refused) -> Refused:
        self.refused[refusal.kind] = self.refused.get(refusal.kind, 0) + 1
        return refusal

    def _going(self) -> Refused:
        return Refused("closed", f"model {self._name} is going away")

    def _set_timer(self, now: float) -> None:
        at = math.inf
        if self:
            at = self._bounds[0][0] if self._bounds else math.inf
            if self._admits():
                at = min(at, self._fleet.returns(now))
                if (since := self._fleet.absent_since) is not None:
                    at = min(at, since + self._admission.absent_seconds)
        if at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at < math.inf:
            self._timer = asyncio.get_running_loop().call_later(max(at - now, 0.001), self._expire)
