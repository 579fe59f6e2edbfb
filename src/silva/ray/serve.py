"""A Ray Serve application as backends: its HTTP proxies, found through the cluster's dashboard.

    every EVERY seconds ─ GET /api/serve/applications/ ─▶ the application's HTTP targets ─▶ Fleet.add, Fleet.remove
    demand ─▶ Scaling ─ POST …/deployments/NAME/scale ─▶ Serve   (where the application enables its external scaler)

Behind a proxy Serve itself spreads requests over replicas and, with an `autoscaling_config`, scales them by what is in
flight, from zero too; what waits here is then in flight there as far as the backend's limit allows. The package ray is
needed only to find the dashboard: not where `address` is the dashboard's own url. A cluster that demands a token gets
the one in the environment variable RAY_AUTH_TOKEN.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Literal
from urllib.parse import quote

import aiohttp
import msgspec
from pydantic import Field

from silva.models.gateway.config import PackageBackends
from silva.models.gateway.providers.scaling import Scaling
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.fleet import Fleet
from silva.ray.dashboard import COMING, SECONDS, TOKEN_VARIABLE, Application, Serve, find_dashboard

log = logging.getLogger("silva.gateway.ray")

EVERY = 1.0


class RayBackends(PackageBackends):
    """A Ray Serve application that serves `kind`. `address` as `ray.init` takes it (needs the extra `ray`), or the url
    of the dashboard. Where `most` is given the application's replicas follow the load between `least` and `most` (it
    must allow its external scaler); else Serve scales by its own rules."""

    provider: Literal["ray"]
    application: str
    address: str = "auto"
    route: str = "/v1"
    least: int = Field(default=1, ge=0)
    most: int | None = Field(default=None, ge=1)
    target: int = Field(default=8, ge=1)
    idle: float = Field(default=60.0, gt=0)

    def provided(self, name: str) -> RayProvider:
        """What finds them."""
        return RayProvider(name, self)


class RayProvider:
    """See the module.

    Args:
        name: what its backends are called, before their addresses.
        chosen: what the configuration says of them.
    """

    def __init__(self, name: str, chosen: RayBackends) -> None:
        self.name = name
        self._chosen = chosen
        most = chosen.most
        self._scaling = None if most is None else Scaling(chosen.least, most, chosen.target, chosen.idle)
        self._fleet: Fleet | None = None
        self._http: aiohttp.ClientSession | None = None
        self._loop: asyncio.Task[None] | None = None
        self._dashboard = ""
        self._backends: dict[str, Backend] = {}
        self._wake = asyncio.Event()
        self._told = ""

    async def start(self, fleet: Fleet) -> None:
        """Find the dashboard and begin to look.

        Raises:
            MissingError: ray is needed and not installed.
            UnreachableError: there is no cluster at the address.
        """
        self._fleet = fleet
        address = self._chosen.address
        is_url = address.startswith(("http://", "https://"))
        self._dashboard = address.rstrip("/") if is_url else await asyncio.to_thread(find_dashboard, address)
        token = os.environ.get(TOKEN_VARIABLE)
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=SECONDS), headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        fleet.watch(self._demand)
        fleet.expect(self.name, 1)  # until the first look knows better
        self._loop = asyncio.create_task(self._run(), name=f"silva-ray {self.name}")

    async def stop(self) -> None:
        """Take its backends away; the application is not ours to stop."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        if self._fleet is not None:
            self._fleet.unwatch(self._demand)
            self._fleet.expect(self.name, 0)
            self._update({})
        if self._http is not None:
            await self._http.close()

    def backends(self) -> tuple[Backend, ...]:
        """Those that are there now."""
        return tuple(self._backends.values())

    def _demand(self, waiting: int, in_flight: int, now: float) -> None:
        if self._scaling is not None:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._look()
            self._wake.clear()
            try:
                async with asyncio.timeout(EVERY):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        """Ask the dashboard once, and bring the fleet up to date."""
        assert self._http is not None
        try:
            async with self._http.get(f"{self._dashboard}/api/serve/applications/") as reply:
                if reply.status != 200:
                    hint = f": put the cluster's token into ${TOKEN_VARIABLE}" if reply.status in (401, 403) else ""
                    self._say(f"the Ray dashboard answers HTTP {reply.status}{hint}")
                    return
                serve = msgspec.json.decode(await reply.read(), type=Serve)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as fault:
            # The proxies may well be fine without the dashboard: what was known stays, health checks see to it.
            self._say(f"the Ray dashboard does not answer ({type(fault).__name__})")
            return
        name = self._chosen.application
        application = serve.applications.get(name)
        if application is None:
            self._update({})
            self._say(f"Ray Serve has no application {name!r} (it has: {', '.join(serve.applications) or 'none'})")
            return
        self._update({place: self._backend(place, root) for place, root in serve.roots(name).items()})
        told = "" if self._backends else f"Ray Serve application is {application.status} {application.message}".strip()
        self._say(told, int(application.status in COMING))
        if self._scaling is not None and application.external_scaler_enabled:
            await self._scale(self._scaling, application)

    def _backend(self, place: str, root: str) -> Backend:
        chosen = self._chosen
        return Backend(
            name=f"{self.name}@{place}",
            url=root + chosen.route,
            kind=chosen.kind,
            model=chosen.model,
            health="/-/healthz",
        )

    def _update(self, found: dict[str, Backend]) -> None:
        assert self._fleet is not None
        for place in self._backends.keys() - found.keys():
            self._fleet.remove(self._backends.pop(place).name)
        for place, backend in found.items():
            if self._backends.get(place) != backend:
                self._backends[place] = backend
                self._fleet.add(backend)

    def _say(self, trouble: str, expected: int = 0) -> None:
        assert self._fleet is not None
        if trouble and trouble != self._told:
            log.warning("%s: %s", self.name, trouble)
        self._told = trouble
        self._fleet.expect(self.name, expected, trouble)

    async def _scale(self, scaling: Scaling, application: Application) -> None:
        assert self._fleet is not None and self._http is not None
        own = {backend.name for backend in self._backends.values()}
        busy = sum(state.outstanding for state in self._fleet.states() if state.backend.name in own)
        wanted = scaling.wanted(self._fleet.waiting + busy, self._fleet.now())
        for deployment, known in application.deployments.items():
            if known.get("target_num_replicas") == wanted:
                continue
            path = f"applications/{quote(self._chosen.application)}/deployments/{quote(deployment)}/scale"
            body = {"target_num_replicas": wanted}
            try:
                async with self._http.post(f"{self._dashboard}/api/v1/{path}", json=body) as reply:
                    why = "" if reply.status == 200 else f"HTTP {reply.status}"
            except (aiohttp.ClientError, TimeoutError) as fault:
                why = type(fault).__name__
            if why:
                log.warning("%s: Ray Serve does not scale %s: %s", self.name, deployment, why)
