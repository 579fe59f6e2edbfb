"""The driver's end of one worker: asks it to play, keeps what it says, acknowledges.

    play ─▶ Assignment ─▶ worker        listen: letters ─▶ flight.take ─▶ journal ─▶ acknowledge, flight.kept

After `Gone` nothing it may still say is heard: what it said before is in the journal, or was never acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from silva.rollout.on_ray.cluster import Cluster, Gone
from silva.rollout.on_ray.flight import Flight
from silva.rollout.on_ray.letters import Blob, Fault, Letter, Ready, Records, Refusal
from silva.rollout.on_ray.worker import POLL_SECONDS
from silva.tree import Failure, Task, Trajectory

LEAVE_SECONDS = 8.0
"""A worker may take so long to end its hosts before it is killed: hosts themselves get two seconds."""

_numbers = itertools.count(1)


class Lake(Protocol):
    """The part of the lake that a member writes to."""

    def submit_encoded(self, records: Sequence[bytes]) -> asyncio.Future[None]:
        """Send encoded records to disk; the future is done when they are there."""
        ...

    async def put_blob(self, data: bytes, media_type: str = ...) -> str:
        """Store bytes."""
        ...


class Member:
    """See the module. `silence`: seconds without any word after which it is taken to be gone."""

    def __init__(self, cluster: Cluster, actor: Any, node: str, ready: Ready, silence: float) -> None:
        self._cluster, self._actor = cluster, actor
        self._silence = POLL_SECONDS + silence
        self.node = node
        self.ready = ready
        self.running: Counter[str] = Counter()
        self.gone: Gone | None = None
        self.said = False
        self._flights: dict[int, Flight] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    def room(self, env: str) -> int:
        """How many more episodes of an environment it takes."""
        return self.ready.capacity[env] - self.running[env] if self.gone is None else 0

    async def tasks(self, env: str, split: str, limit: int | None, ids: list[str] | None) -> list[Task]:
        """As `HostPool.tasks`."""
        return _value(await self._cluster.ask(self._actor.tasks.remote(env, split, limit, ids), self._silence + 120.0))

    async def begin(self, seconds: float) -> None:
        """Have it open the model.

        Raises:
            SilvaError: what it said, with its exit code.
            Gone: it is no more.
        """
        _value(await self._cluster.ask(self._actor.begin.remote(), seconds))

    async def play(self, flight: Flight, spent: Failure | None) -> Trajectory:
        """Have an episode played.

        Raises:
            Gone: the worker is no more.
            SilvaError: the run cannot go on.
        """
        if self.gone is not None:
            raise self.gone
        number = next(_numbers)
        self._flights[number] = flight
        try:
            self._actor.play.remote(flight.assignment(number, spent))  # a lost call shows where it listens
            return await flight.done
        finally:
            del self._flights[number]

    async def listen(self, lake: Lake, spent: Callable[[], Failure | None]) -> None:
        """Keep what it says, until it is gone.

        Raises:
            Gone: it is.
        """
        while True:
            letters = await self._cluster.ask(self._actor.letters.remote(), self._silence)
            if letters:
                self.said = True
                task = asyncio.create_task(self._keep(letters, lake, spent))
                self._keeping.add(task)
                task.add_done_callback(self._keeping.discard)

    def lose(self, why: Gone) -> None:
        """It is gone: end what may be left of it, and tell its episodes."""
        self.gone = why
        self._cluster.kill(self._actor)
        for flight in self._flights.values():
            if not flight.ending:
                flight.failed(why)

    def break_off(self, error: Exception) -> None:
        """The run ends in an error: tell its episodes."""
        for flight in self._flights.values():
            flight.failed(error)

    async def leave(self) -> None:
        """Let it end its hosts, then end it."""
        if self.gone is None:
            with contextlib.suppress(Gone):
                await self._cluster.ask(self._actor.leave.remote(), LEAVE_SECONDS)
            self._cluster.kill(self._actor)

    async def _keep(self, letters: list[Letter], lake: Lake, spent: Callable[[], Failure | None]) -> None:
        """Write letters to the journal in the order they came, then acknowledge them together."""
        numbers: list[int] = []
        records: list[tuple[Flight, Records]] = []
        futures: list[asyncio.Future[Any]] = []
        flights: list[Flight] = []
        failure = ""
        try:
            for letter in letters:
                if isinstance(letter, Blob):
                    numbers.append(letter.number)
                    futures.append(asyncio.ensure_future(lake.put_blob(letter.data, letter.media_type)))
                    continue
                flight = self._flights.get(letter.flight)
                if flight is None:  # it was cancelled here
                    continue
                flights.append(flight)
                if isinstance(letter, Fault):
                    flight.failed(_fault(letter))
                    continue
                numbers.append(letter.number)
                records.append((flight, letter))
                fresh = flight.take(letter)
                if fresh:
                    futures.append(lake.submit_encoded(fresh))
            await asyncio.gather(*futures)
            for flight, letter in records:
                flight.kept(letter)
        except Exception as error:  # noqa: BLE001 - a task of its own: the episodes are told, and end the run
            failure = str(error)
            for flight in flights:
                flight.failed(error)
        if self.gone is None and numbers:
            self._actor.acknowledge.remote(numbers, failure, spent())


def _value(reply: Any) -> Any:
    if isinstance(reply, Refusal):
        raise reply.error()
    return reply


def _fault(letter: Fault) -> Exception:
    if letter.refusal is not None:
        return letter.refusal.error()
    return RuntimeError(f"a Ray worker broke: {letter.traceback}")
