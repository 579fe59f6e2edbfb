"""Places on backends: given at once where one is free, else in a fair turn, within bounds of time.

    wait ─▶ Line (fair between runs) ── a place is free ──▶ given
                  │                 └── only where it was tried already ─▶ stuck: first when another has room
                  └── too long, its deadline, no backend for too long, all held or tried ─▶ Refused

A request waits until its own deadline or for `wait_seconds`, whichever comes first. One timer looks again when a
breaker or a Retry-After may let somebody pass.
"""

from __future__ import annotations

import asyncio
import math

from silva.models.gateway.config import Limits
from silva.models.gateway.routing.backend import BackendState
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.lease import Lease
from silva.models.gateway.routing.line import Line
from silva.models.gateway.routing.refused import Refused


class Queue:
    """See the module. One event loop.

    Args:
        name: the route's, for messages.
        fleet: its backends.
        limits: how many may wait, how long.
        absent_seconds: how long requests wait for a first backend to come (back) before all are refused.
    """

    def __init__(self, name: str, fleet: Fleet, limits: Limits, absent_seconds: float) -> None:
        self.name = name
        self.fleet = fleet
        self.now = fleet.now
        self.version = ""
        """The policy version requests get now, where backends tell none."""
        self.in_flight = 0
        """How many requests have a place."""
        self.granted = 0
        self.refused: dict[str, int] = {}
        self._wait_seconds = limits.wait_seconds
        self._absent_seconds = absent_seconds
        self._line: Line[Lease] = Line(limits.waiting)
        self._stuck: dict[int, Lease] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._closed = False
        fleet.attach(self.look, lambda: self.waiting)

    @property
    def admits(self) -> bool:
        """Whether places are given now."""
        return True

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._line) + len(self._stuck)

    def grant_now(self, lease: Lease) -> bool:
        """Give it a place if one is free and nobody waits for it."""
        now = self.now()
        if self._line or self._stuck or not self.admits or self._closed or now >= lease.deadline:
            return False
        state = self.fleet.choose(now, lease.session, lease.exclude)
        if state is None:
            return False
        self._give(lease, state, now)
        return True

    def release(self, lease: Lease) -> None:
        """A place is free: it goes to whoever is next."""
        self.in_flight -= 1
        self.fleet.ended()
        self.look()

    async def wait(self, lease: Lease) -> None:
        """Wait until the lease has a place.

        Raises:
            Refused: it gets none, and why.
        """
        now = self.now()
        self.fleet.demand(self.waiting + 1, self.in_flight, now)
        lease.until = min(lease.deadline, now + self._wait_seconds)
        refusal = self._late(lease) if now >= lease.deadline else self._hopeless(lease, now)
        if refusal is None and self._line.full:
            refusal = Refused("line_full", f"{self.waiting} requests wait already, which is as many as may")
        if refusal is not None:
            raise self._counted(refusal)
        lease.future = future = asyncio.get_running_loop().create_future()
        lease.place = self._line.push(lease.run, lease, lease.share)
        self.look()
        try:
            while not future.done():
                left = lease.until - self.now()
                if left > 0:
                    await asyncio.wait([future], timeout=None if left == math.inf else left)
                elif lease.until < lease.deadline and (not self.admits or self.fleet.expected):
                    # Waiting for a change of version or a first backend is nobody's crowd: the bound starts anew.
                    lease.until = min(lease.deadline, self.now() + self._wait_seconds)
                else:
                    self._refuse(lease, self._late(lease))
            future.result()
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
        if not self.waiting:
            return
        now = self.now()
        if self.admits:
            for lease in [*self._stuck.values()]:
                self._place(lease, now)
            while self._line and self.fleet.choose(now) is not None:
                lease = self._line.pop()
                if lease is not None:
                    self._stuck[lease.place] = lease
                    self._place(lease, now)
            for lease in [*self._stuck.values()] if self.fleet.why_nothing(now) == "busy" else self._all():
                self._refuse(lease, self._hopeless(lease, now))
        self._set_timer(now)

    def close(self) -> None:
        """Refuse whoever waits, and whoever comes."""
        self._closed = True
        for lease in self._all():
            self._refuse(lease, self._hopeless(lease, 0.0))
        self._set_timer(self.now())

    def _place(self, lease: Lease, now: float) -> None:
        """Give one of the stuck its place, or leave it where it is."""
        state = self.fleet.choose(now, lease.session, lease.exclude)
        if state is None:
            return
        del self._stuck[lease.place]
        self._give(lease, state, now)
        future, lease.future = lease.future, None
        if future is not None and not future.done():
            future.set_result(None)

    def _give(self, lease: Lease, state: BackendState, now: float) -> None:
        self.in_flight += 1
        self.granted += 1
        lease.given(state, now, state.version or self.version)

    def _late(self, lease: Lease) -> Refused:
        if lease.until >= lease.deadline:
            return Refused("deadline", "the request's deadline passed before a backend was free; give it more time")
        return Refused("too_long", f"no backend was free within {self._wait_seconds:g} s, {self.waiting} requests wait")

    def _hopeless(self, lease: Lease, now: float) -> Refused | None:
        """Why a lease need not wait, or None where it may."""
        if self._closed:
            return Refused("closed", f"model {self.name} is going away")
        if not self.admits or self.fleet.expected:
            return None
        why = self.fleet.why_nothing(now, lease.exclude)
        again = self.fleet.returns(now)
        if why == "exhausted":
            return Refused("exhausted", f"every backend of model {self.name} that is up was tried")
        if why == "held" and lease.until < again < math.inf:
            what = f"the backends of model {self.name} asked to be left alone; come again in"
            return Refused("held", f"{what} {math.ceil(again - now)} s", again - now)
        since = self.fleet.absent_since
        if why == "absent" and since is not None and now >= since + self._absent_seconds:
            told = self.fleet.trouble()
            seconds = min(max(again - now, 1.0), self.fleet.health.every)
            return Refused("absent", f"no backend of model {self.name} is up" + (f" ({told})" if told else ""), seconds)
        return None

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

    def _set_timer(self, now: float) -> None:
        at = math.inf
        if self.waiting and self.admits:
            since = self.fleet.absent_since
            at = min(self.fleet.returns(now), math.inf if since is None else since + self._absent_seconds)
        if at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at < math.inf:
            self._timer = asyncio.get_running_loop().call_later(max(at - now, 0.001), self._again)

    def _again(self) -> None:
        self._timer, self._timer_at = None, math.inf
        self.look()
