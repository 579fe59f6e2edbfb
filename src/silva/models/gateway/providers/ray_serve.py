"""A Ray Serve application as backends: its HTTP proxies, found through the cluster's dashboard.

    every EVERY seconds ─ GET /api/serve/applications/ ─▶ the application's HTTP targets ─▶ Fleet.add, Fleet.remove
    demand ─▶ Scaling ─ POST …/deployments/NAME/scale ─▶ Serve   (where the application enables its external scaler)

Behind a proxy Serve itself spreads requests over replicas and, with an `autoscaling_config`, scales them by what is in
flight, from zero too; what waits here is then in flight there as far as the backend's limit allows. The package ray is
needed only to find the dashboard: not where `address` is the dashboard's own url. A cluster that demands a token gets
the one in the environment variable RAY_AUTH_TOKEN, Ray's own name for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from silva.errors import MissingError, UnreachableError
from silva.hosts import is_loopback
from silva.models.gateway.config import RayBackends
from silva.models.gateway.providers.scaling import Scaling
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.fleet import Fleet

log = logging.getLogger("silva.gateway.ray")

EVERY = 1.0
TIMEOUT = 5.0
TOKEN_VARIABLE = "RAY_AUTH_TOKEN"
COMING = frozenset({"NOT_STARTED", "DEPLOYING"})
"""States of an application that will serve soon."""


class Deployment(msgspec.Struct):
    """One deployment of an application, as the dashboard tells it."""

    target_num_replicas: int = 0
    replicas: list[dict[str, object]] = msgspec.field(default_factory=list[dict[str, object]])


class Application(msgspec.Struct):
    """One application, as the dashboard tells it."""

    status: str
    message: str = ""
    route_prefix: str | None = None
    external_scaler_enabled: bool = False
    deployments: dict[str, Deployment] = msgspec.field(default_factory=dict[str, Deployment])


class Target(msgspec.Struct):
    """An address that serves an application."""

    ip: str
    port: int


class TargetGroup(msgspec.Struct):
    """The addresses of one route prefix (`/` of the proxies: all applications)."""

    targets: list[Target]
    route_prefix: str
    protocol: str
    app_name: str = ""


class HttpOptions(msgspec.Struct):
    """Where the proxies listen."""

    host: str | None = None


class Serve(msgspec.Struct):
    """What the dashboard tells of Serve."""

    http_options: HttpOptions | None = None
    applications: dict[str, Application] = msgspec.field(default_factory=dict[str, Application])
    target_groups: list[TargetGroup] = msgspec.field(default_factory=list[TargetGroup])


class RayProvider:
    """See the module.

    Args:
        name: what its backends are called, before their addresses.
        chosen: what the configuration says of them.
        scaling: how many replicas to ask for where the application enables its external scaler; None: Serve decides.
    """

    def __init__(self, name: str, chosen: RayBackends, scaling: Scaling | None = None) -> None:
        self.name = name
        self._chosen = chosen
        self._scaling = scaling
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
            timeout=aiohttp.ClientTimeout(total=TIMEOUT), headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        fleet.watch(self.demand)
        fleet.expect(self.name, 1)  # until the first look knows better
        self._loop = asyncio.create_task(self._run(), name=f"silva-ray {self.name}")

    async def stop(self) -> None:
        """Take its backends away; the application is not ours to stop."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        if self._fleet is not None:
            self._fleet.unwatch(self.demand)
            self._fleet.expect(self.name, 0)
            for name in self._backends:
                self._fleet.remove(name)
        self._backends.clear()
        if self._http is not None:
            await self._http.close()

    def backends(self) -> tuple[Backend, ...]:
        """Those that are there now."""
        return tuple(self._backends.values())

    def demand(self, waiting: int, in_flight: int, now: float) -> None:
        """A request found no place."""
        if self._scaling is not None:
            self._wake.set()

    async def look(self) -> None:
        """Ask the dashboard once, and bring the fleet up to date."""
        assert self._fleet is not None and self._http is not None
        try:
            async with self._http.get(f"{self._dashboard}/api/serve/applications/") as reply:
                if reply.status != 200:
                    hint = f": put the cluster's token into ${TOKEN_VARIABLE}" if reply.status in (401, 403) else ""
                    self._say(f"the Ray dashboard answers HTTP {reply.status}{hint}", 0)
                    return
                serve = msgspec.json.decode(await reply.read(), type=Serve)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as fault:
            # The proxies may well be fine without the dashboard: what was known stays, health checks see to it.
            self._say(f"the Ray dashboard does not answer ({type(fault).__name__})", 0)
            return
        application = serve.applications.get(self._chosen.application)
        if application is None:
            known = ", ".join(serve.applications) or "none"
            self._update({})
            self._say(f"Ray Serve has no application {self._chosen.application!r} (it has: {known})", 0)
            return
        self._update(self._found(serve, application))
        told = "" if self._backends else f"Ray Serve application is {application.status} {application.message}".strip()
        self._say(told, int(application.status in COMING))
        if self._scaling is not None and application.external_scaler_enabled:
            await self._scale(self._scaling, application)

    async def _run(self) -> None:
        while True:
            await self.look()
            self._wake.clear()
            try:
                async with asyncio.timeout(EVERY):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _found(self, serve: Serve, application: Application) -> dict[str, Backend]:
        if application.route_prefix is None or application.status in COMING:
            return {}
        prefix = application.route_prefix.rstrip("/")
        listens = serve.http_options.host if serve.http_options else None
        found: dict[str, Backend] = {}
        for group in serve.target_groups:
            if group.protocol != "HTTP" or group.app_name not in ("", self._chosen.application):
                continue
            for target in group.targets:
                # Serve names the node's address even where its proxy listens on loopback alone, which is its default.
                address = listens if listens and is_loopback(listens) else target.ip
                host = f"[{address}]" if ":" in address else address
                name = f"{self.name}@{host}:{target.port}"
                found[name] = Backend(
                    name=name,
                    url=f"http://{host}:{target.port}{prefix}{self._chosen.route}",
                    kind=self._chosen.kind,
                    model=self._chosen.model,
                    health="/-/healthz",
                )
        return found

    def _update(self, found: Mapping[str, Backend]) -> None:
        assert self._fleet is not None
        for name in self._backends.keys() - found.keys():
            self._fleet.remove(name)
            del self._backends[name]
        for name, backend in found.items():
            if self._backends.get(name) != backend:
                self._backends[name] = backend
                self._fleet.add(backend)

    def _say(self, trouble: str, expected: int) -> None:
        assert self._fleet is not None
        if trouble and trouble != self._told:
            log.warning("%s: %s", self.name, trouble)
        self._told = trouble
        self._fleet.expect(self.name, expected, trouble)

    async def _scale(self, scaling: Scaling, application: Application) -> None:
        assert self._fleet is not None and self._http is not None
        load = self._fleet.waiting + sum(
            state.outstanding for state in self._fleet.states() if state.backend.name in self._backends
        )
        wanted = scaling.wanted(load, self._fleet.now())
        for deployment, known in application.deployments.items():
            if known.target_num_replicas == wanted:
                continue
            path = f"applications/{quote(self._chosen.application)}/deployments/{quote(deployment)}/scale"
            body = {"target_num_replicas": wanted}
            try:
                async with self._http.post(f"{self._dashboard}/api/v1/{path}", json=body) as reply:
                    if reply.status != 200:
                        log.warning("%s: Ray Serve does not scale %s: HTTP %d", self.name, deployment, reply.status)
            except (aiohttp.ClientError, TimeoutError) as fault:
                log.warning("%s: Ray Serve does not scale %s: %s", self.name, deployment, type(fault).__name__)


def find_dashboard(address: str) -> str:
    """The url of the dashboard of the cluster at `address` (as `ray.init` takes it), blocking.

    Raises:
        MissingError: ray is not installed.
        UnreachableError: there is no cluster.
    """
    try:
        import ray
    except ImportError as fault:
        raise MissingError(
            "Ray backends need the package ray: pip install 'silva[ray]'"
            " (or give the dashboard's url as address, such as http://127.0.0.1:8265)"
        ) from fault
    _knock(address)
    began = time.monotonic()
    ours = not ray.is_initialized()
    try:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        context: Any = ray.init(address=address, ignore_reinit_error=True, **options)
    except (ConnectionError, RuntimeError, ValueError) as fault:
        raise _nobody(address) from fault
    found = context.address_info.get("webui_url")
    if ours:
        ray.shutdown()
    if not found:
        raise UnreachableError(f"the Ray cluster at {address!r} has no dashboard: start it with one")
    log.debug("found the Ray dashboard in %.1f s", time.monotonic() - began)
    return f"http://{found}"


def _knock(address: str) -> None:
    """Where the address is one of a host, see that somebody listens: ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
    except OSError as fault:
        raise _nobody(address) from fault


def _nobody(address: str) -> UnreachableError:
    return UnreachableError(
        f"no Ray cluster lets us in at {address!r}: start one, correct 'address', or set ${TOKEN_VARIABLE}"
    )
