"""Health checks: each backend is asked now and then, left out after failures in a row, taken back after one success.

    every `every` seconds ─ GET its health path ─▶ Fleet.mark(healthy, version)

Kinds that name a health path must answer 200 there. Other endpoints (`chat`, `anthropic`) are asked for `/models`,
where any answer below 500 shows life: many do not serve that route, and a wrong key is the breaker's to notice.
"""

from __future__ import annotations

import asyncio
import logging

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

LARGEST = 65536

log = logging.getLogger("silva.gateway.health")


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
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with http.get(url, headers=backend.authorization(), timeout=timeout, allow_redirects=False) as reply:
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


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("health is checked no more, by a fault of our own", exc_info=fault)


class HealthChecks:
    """Checks the backends of one fleet as they come and go. `async with HealthChecks(fleet, health)`.

    Args:
        fleet: whose backends.
        health: how often, how patiently.
    """

    def __init__(self, fleet: Fleet, health: Health) -> None:
        self._fleet = fleet
        self._health = health
        self._failures: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> HealthChecks:
        self._task = asyncio.create_task(self._watch(), name="silva-health")
        self._task.add_done_callback(_tell)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        async with aiohttp.ClientSession() as http:
            while True:
                backends = [state.backend for state in self._fleet.states()]
                self._failures = {one.name: self._failures.get(one.name, 0) for one in backends}
                await asyncio.gather(*(self._look(http, backend) for backend in backends))
                await asyncio.sleep(self._health.every)

    async def _look(self, http: aiohttp.ClientSession, backend: Backend) -> None:
        finding = await check(http, backend, self._health.timeout)
        state = self._fleet.get(backend.name)
        if state is None or state.backend is not backend:  # it went meanwhile, or another came in its place
            return
        self._failures[backend.name] = 0 if finding.healthy else self._failures[backend.name] + 1
        if finding.healthy:
            self._fleet.mark(backend.name, True, version=finding.version)
        elif self._failures[backend.name] >= self._health.failures:
            self._fleet.mark(backend.name, False, trouble=finding.trouble)
