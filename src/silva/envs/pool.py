"""A pool of warm instances in host processes, lent one at a time.

    lease ─▶ an idle instance, else a new one while there is room, else wait ─▶ EnvironmentHandle ─▶ back to the pool

An instance that failed is discarded; a host that died is started again when next needed, with growing pauses, until
too many die in a row without one good call between. Leases are served in the order they were asked for.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import msgspec

from silva.envs.errors import EnvError
from silva.envs.handle import AnyHost, EnvironmentHandle
from silva.envs.home import home
from silva.envs.inline import InlineHost
from silva.envs.install import interpreter, links
from silva.envs.process import HostProcess, Launch
from silva.envs.protocol import Capabilities, EnvironmentEntry
from silva.errors import UsageError
from silva.tree import Json, Task
from silva.tree.message import Record

MOST_DEATHS = 8
"""Hosts that may die in a row, with no good call between, before the pool gives up."""

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$|^AWS_", re.IGNORECASE)


class PoolStats(Record, frozen=True, kw_only=True):
    """What a pool holds and has done. `host_seconds` is time inside the environment's code."""

    hosts: int = 0
    instances: int = 0
    idle: int = 0
    leased: int = 0
    waiting: int = 0
    created: int = 0
    discarded: int = 0
    restarts: int = 0
    calls: int = 0
    host_seconds: float = 0.0
    failures: dict[str, int] = msgspec.field(default_factory=dict[str, int])


@dataclass
class _Place:
    """Where one host stands, now or after its next start."""

    host: AnyHost | None = None
    instances: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostPool:
    """Hosts of one environment. Use as `async with HostPool(entry) as pool`.

    `hosts` processes hold up to `instances_per_host` instances each (None: as many as are leased at once, or as the
    environment declares it can). `step_timeout` bounds every call in seconds; `start_timeout` the start of a host, the
    making of an instance and the listing of tasks. `memory_limit_mb` bounds each host (None: no limit; an entry may
    need more). `options` go to the environment's constructor, over the entry's own. Hosts do not inherit variables that
    look like credentials, but for those named in `pass_variables`.
    """

    def __init__(
        self,
        entry: EnvironmentEntry,
        hosts: int = 1,
        instances_per_host: int | None = None,
        mode: Literal["process", "inline"] = "process",
        step_timeout: float = 60.0,
        memory_limit_mb: int | None = 4096,
        options: Json | None = None,
        start_timeout: float = 120.0,
        pass_variables: Iterable[str] = (),
    ) -> None:
        if hosts < 1 or (instances_per_host is not None and instances_per_host < 1):
            raise UsageError(f"environment {entry.name}: hosts and instances per host must be at least 1")
        self.entry = entry
        self._mode = mode
        self._per_host = instances_per_host
        self._step_timeout = step_timeout
        python = interpreter(entry)
        self._launch = Launch(
            name=entry.name,
            python=python,
            target=entry.target,
            options={**entry.options, **(options or {})},
            memory_limit_mb=memory_limit_mb and max(memory_limit_mb, entry.memory_mb),
            start_timeout=start_timeout,
            environ=_environ(entry, python, set(pass_variables)),
            packages=entry.packages,
        )
        self._places = [_Place() for _ in range(1 if mode == "inline" else hosts)]
        self._idle: deque[EnvironmentHandle] = deque()
        self._waiting: deque[asyncio.Future[EnvironmentHandle | None]] = deque()
        self._homes: dict[EnvironmentHandle, _Place] = {}
        self._deaths = 0
        self._answered_at_death = 0
        self._number = 0
        self._leased = 0
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._past = (0, 0.0)
        self._closed = False
        self.capabilities = Capabilities()

    async def __aenter__(self) -> HostPool:
        """Start the hosts.

        Raises:
            EnvError: `host.spawn`, with the reason.
        """
        starts = [asyncio.ensure_future(self._started(place)) for place in self._places]
        try:
            hosts = await asyncio.gather(*starts)
        except BaseException:
            await asyncio.gather(*starts, return_exceptions=True)
            await self.close()
            raise
        self.capabilities = hosts[0].capabilities
        if self.capabilities.parallel:
            self._per_host = min(self._per_host or self.capabilities.parallel, self.capabilities.parallel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the hosts; those waiting for a lease are cancelled."""
        self._closed = True
        for future in self._waiting:
            future.cancel()
        await asyncio.gather(*(place.host.close() for place in self._places if place.host is not None))

    async def tasks(
        self, split: str = "test", limit: int | None = None, ids: Iterable[str] | None = None
    ) -> list[Task]:
        """The environment's tasks in its own order, the first `limit` of them, or those of `ids` in the order given.

        Raises:
            UsageError: no such split or task, or an endless split without a limit.
            EnvError: listing them failed.
        """
        host = await self._started(self._places[0])
        wanted: Json = {"split": split, "limit": limit, "ids": None if ids is None else list(ids), "page": 0}
        if wanted["ids"] == []:
            return []
        listed: list[Task] = []
        while True:
            reply = await host.call("tasks", 0, self._launch.start_timeout, arguments=dict(wanted))
            page = reply.tasks or []
            listed += page
            if not reply.more:
                return listed
            wanted["page"] += 1

    def lease(self, timeout: float | None = None) -> Lease:
        """`async with pool.lease() as env`: an instance of one's own; waits up to `timeout` seconds for one.

        Raises:
            EnvError: `host.busy` when none came free, or why none could be made.
        """
        return Lease(self, timeout)

    async def prewarm(self, n: int) -> None:
        """Make instances until `n` stand idle (or there is no more room)."""
        missing = min(n - len(self._idle), self._room())
        places = [self._reserve() for _ in range(max(0, missing))]
        made = await asyncio.gather(*(self._make(place) for place in places), return_exceptions=True)
        for handle in made:
            if isinstance(handle, EnvironmentHandle):
                self._offer(handle)
        for error in made:
            if isinstance(error, BaseException):
                raise error

    def stats(self) -> PoolStats:
        """What the pool holds and has done so far."""
        alive = [place.host for place in self._places if place.host is not None and place.host.dead is None]
        return PoolStats(
            hosts=len(alive),
            instances=sum(place.instances for place in self._places),
            idle=len(self._idle),
            leased=self._leased,
            waiting=len(self._waiting),
            created=self._counts["created"],
            discarded=self._counts["discarded"],
            restarts=self._counts["restarts"],
            calls=self._past[0] + sum(host.answered for host in alive),
            host_seconds=self._past[1] + sum(host.seconds for host in alive),
            failures=dict(self._failures),
        )

    async def acquire(self) -> EnvironmentHandle:
        """Take an instance; give it back with `release`. `lease` does both."""
        while not self._closed:
            if (idle := self.take()) is not None:
                return idle
            if self._room() > 0:
                try:
                    handle = await self._make(self._reserve())
                except BaseException:
                    self._wake()
                    raise
                self._leased += 1
                return handle
            future: asyncio.Future[EnvironmentHandle | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                given = await future
            except BaseException:
                if future.done() and not future.cancelled():  # it was ours for a moment: pass it on
                    given = future.result()
                    if given is None:
                        self._wake()
                    else:
                        self._offer(given)
                elif future in self._waiting:
                    self._waiting.remove(future)
                raise
            if given is not None:
                if not given.broken:
                    self._leased += 1
                    return given
                self._discard(given)
        raise EnvError("host.busy", f"{self.entry.name}: the pool is closed", retryable=False)

    def take(self) -> EnvironmentHandle | None:
        """As `acquire`, where an instance is idle; None where none is."""
        while self._idle and not self._closed:
            handle = self._idle.pop()  # the one last used is the warmest
            if not handle.broken:
                self._leased += 1
                return handle
            self._discard(handle)
        return None

    def release(self, handle: EnvironmentHandle) -> None:
        """Give an instance back."""
        self._leased -= 1
        failure = handle.failed
        if failure is not None:
            self._failures[failure.kind] += 1
        if handle.broken:
            self._discard(handle)
        else:
            self._offer(handle)

    def _offer(self, handle: EnvironmentHandle) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(handle)
                return
        self._idle.append(handle)

    def _wake(self) -> None:
        """Let the first who waits look again: there may be room now."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    def _discard(self, handle: EnvironmentHandle) -> None:
        place = self._homes.pop(handle)
        place.instances -= 1
        self._counts["discarded"] += 1
        handle.host.tell("close", handle.number, self._step_timeout)
        self._wake()

    def _room(self) -> int:
        if self._per_host is None:
            return 1_000_000
        return sum(self._per_host - place.instances for place in self._places)

    def _reserve(self) -> _Place:
        place = min(self._places, key=lambda place: place.instances)
        place.instances += 1
        return place

    async def _make(self, place: _Place) -> EnvironmentHandle:
        self._number += 1
        number = self._number
        try:
            host = await self._started(place)
            while not await self._created(host, number):
                host = await self._started(place)
        except BaseException:
            place.instances -= 1
            raise
        self._counts["created"] += 1
        handle = EnvironmentHandle(host, number, self._step_timeout)
        self._homes[handle] = place
        return handle

    async def _created(self, host: AnyHost, number: int) -> bool:
        """Whether the instance stands; False when its host died meanwhile (`_mourn` bounds how often that may be)."""
        try:
            await host.call("create", number, self._launch.start_timeout)
        except EnvError as error:
            if error.kind != "host.died":
                raise
            return False
        return True

    async def _started(self, place: _Place) -> AnyHost:
        async with place.lock:
            if place.host is not None and place.host.dead is None:
                return place.host
            if place.host is not None:
                await self._mourn(place.host)
                place.host = None
            kind: Any = InlineHost if self._mode == "inline" else HostProcess
            host: AnyHost = await kind.start(self._launch)
            place.host = host
            return host

    async def _mourn(self, host: AnyHost) -> None:
        assert host.dead is not None
        self._counts["restarts"] += 1
        self._past = (self._past[0] + host.answered, self._past[1] + host.seconds)
        # Being made and reset is no sign of health: an environment that always dies in its first step does both.
        self._deaths = 1 if host.good else self._deaths + 1
        if self._deaths >= MOST_DEATHS:
            text = f"{self.entry.name}: gave up after {self._deaths} hosts died in a row; the last: {host.dead}"
            raise EnvError("host.spawn", text, retryable=False)
        if self._deaths > 1:
            await asyncio.sleep(min(0.05 * 2**self._deaths, 5.0))


class Lease:
    """One instance for the length of an `async with`."""

    __slots__ = ("_handle", "_pool", "_timeout")

    def __init__(self, pool: HostPool, timeout: float | None) -> None:
        self._pool = pool
        self._timeout = timeout

    async def __aenter__(self) -> EnvironmentHandle:
        idle = self._pool.take()
        if idle is not None:
            self._handle = idle
            return idle
        try:
            async with asyncio.timeout(self._timeout):
                self._handle = await self._pool.acquire()
        except TimeoutError as error:
            name, shown = self._pool.entry.name, f"{self._timeout:g} s"
            raise EnvError("host.busy", f"{name}: no instance came free in {shown}; allow more hosts") from error
        return self._handle

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.release(self._handle)


def _environ(entry: EnvironmentEntry, python: str, passed: set[str]) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name in passed or not _SECRET.search(name)}
    # One thread each: many hosts share the machine. A fixed hash seed: sets must order alike in every host.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environ.setdefault(name, "1")
    # What lies in the working folder is no library: a file random.py there would be imported for Python's own.
    environ.update(PYTHONHASHSEED="0", PYTHONSAFEPATH="1", SILVA_HOME=str(home()))
    if python == sys.executable:
        environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    else:
        environ.pop("PYTHONHOME", None)
        environ["PYTHONPATH"] = str(links(entry))
    return environ
