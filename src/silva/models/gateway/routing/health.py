"""Health checks: each backend is asked now and then, left out after failures in a row, taken back after one success.

    every `every` seconds (jittered) ─ GET its health path ─▶ Fleet.mark(healthy, version)

Kinds that name a health path must answer 200 there. Other endpoints (`chat`, `anthropic`) are asked for `/models`,
where any answer below 500 shows life: many do not serve that route, and a wrong key is the breaker's to notice.
"""

from __future__ import annotations

import asyncio
from random import Random

import aiohttp
import msgspec
from yarl import URL

from silva.models.failure import UNREADABLE
from silva.models.gateway.config import Health
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.fleet import Fleet
from silva.tree import Record

PATHS = {"vllm": "/health", "sglang": "/health", "silva": "/healthz"}
"""Where a kind tells of its health, from the server's root."""

JITTER = 0.2
LARGEST = 65536


class Finding(Record, frozen=True, kw_only=True):
    """What one check found: `version` as the backend tells it in `policy_version`, "" where it does not."""

    healthy: bool
    version: str = ""
    trouble: str = ""


class _Told(msgspec.Struct):
    policy_version: str = ""


async def check(http: aiohttp.ClientSession, backend: Backend, seconds: float) -> Finding:
    """Ask a backend once how it is; never raises for what is the backend's doing."""
    path = backend.health or PATHS.get(backend.kind, "")
    url = URL(backend.url).with_path(path) if path else URL(backend.url + "/models")
    try:
        async with http.get(
            url,
            headers=backend.authorization(),
            timeout=aiohttp.ClientTimeout(total=seconds),
            allow_redirects=False,
        ) as reply:
            body = await reply.content.read(LARGEST)
            status = reply.status
    except TimeoutError:
        return Finding(healthy=False, trouble=f"no answer to a health check within {seconds:g} s")
    except (aiohttp.ClientError, OSError) as fault:
        return Finding(healthy=False, trouble=f"health check: {type(fault).__name__}")
    if status >= 500 or (path and status != 200):
        return Finding(healthy=False, trouble=f"health check: HTTP {status}")
    try:
        return Finding(healthy=True, version=msgspec.json.decode(body, type=_Told).policy_version)
    except UNREADABLE:  # most tell nothing, in whatever form
        return Finding(healthy=True)


class HealthChecks:
    """Checks the backends of one fleet, one task each, as they come and go. `async with HealthChecks(fleet, health)`.

    Args:
        fleet: whose backends.
        health: how often, how patiently.
        random: where the jitter comes from.
    """

    def __init__(self, fleet: Fleet, health: Health, random: Random | None = None) -> None:
        self._fleet = fleet
        self._health = health
        self._random = random or Random()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._supervisor: asyncio.Task[None] | None = None
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> HealthChecks:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to check."""
        self._http = aiohttp.ClientSession()
        self._supervisor = asyncio.create_task(self._supervise(), name="silva-health")

    async def stop(self) -> None:
        """Check no more."""
        tasks = [*self._tasks.values(), *filter(None, (self._supervisor,))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        if self._http is not None:
            await self._http.close()

    async def _supervise(self) -> None:
        while True:
            names = {state.backend.name for state in self._fleet.states()}
            for name in names - self._tasks.keys():
                self._tasks[name] = asyncio.create_task(self._watch(name), name=f"silva-health {name}")
            for name in self._tasks.keys() - names:
                self._tasks.pop(name).cancel()
            for task in self._tasks.values():
                if task.done():
                    task.result()  # only a fault of our own ends one: let it be seen
            await asyncio.sleep(min(self._health.every, 1.0))

    async def _watch(self, name: str) -> None:
        assert self._http is not None
        failures = 0
        await asyncio.sleep(self._random.uniform(0.0, min(self._health.every, 1.0)))
        while (state := self._fleet.get(name)) is not None:
            backend = state.backend
            finding = await check(self._http, backend, self._health.timeout)
            failures = 0 if finding.healthy else failures + 1
            state = self._fleet.get(name)
            if state is not None and state.backend is backend:
                if finding.healthy:
                    self._fleet.mark(name, True, version=finding.version)
                elif failures >= self._health.failures:
                    self._fleet.mark(name, False, trouble=finding.trouble)
            await asyncio.sleep(self._health.every * self._random.uniform(1.0 - JITTER, 1.0 + JITTER))
