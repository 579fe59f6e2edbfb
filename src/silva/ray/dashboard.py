"""The dashboard of a Ray cluster: where it is, and what it tells of Ray Serve."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import msgspec

from silva.errors import MissingError, UnreachableError
from silva.hosts import is_loopback

SECONDS = 5.0
"""How long anything of a cluster may take to answer."""
TOKEN_VARIABLE = "RAY_AUTH_TOKEN"
"""Ray's own name for the token of a cluster that demands one."""
COMING = frozenset({"NOT_STARTED", "DEPLOYING"})
"""States of an application that will serve soon."""


class Application(msgspec.Struct):
    """One application. `deployments` are the replicas asked for (`target_num_replicas`) by deployment."""

    status: str
    message: str = ""
    route_prefix: str | None = None
    external_scaler_enabled: bool = False
    deployments: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict[str, dict[str, Any]])


class Target(msgspec.Struct):
    """An address that serves an application."""

    ip: str
    port: int


class TargetGroup(msgspec.Struct):
    """The addresses of one application (of all, where `app_name` is empty)."""

    targets: list[Target]
    protocol: str
    app_name: str = ""


class Serve(msgspec.Struct):
    """What the dashboard tells of Serve. `http_options` say where its proxies listen (`host`)."""

    http_options: dict[str, Any] | None = None
    applications: Mapping[str, Application] = msgspec.field(default_factory=dict[str, Application])
    target_groups: list[TargetGroup] = msgspec.field(default_factory=list[TargetGroup])

    def roots(self, name: str) -> dict[str, str]:
        """The url of an application at each proxy, by `HOST:PORT`; none while it is coming."""
        application = self.applications[name]
        if application.route_prefix is None or application.status in COMING:
            return {}
        listens = (self.http_options or {}).get("host")
        found: dict[str, str] = {}
        for group in self.target_groups:
            if group.protocol != "HTTP" or group.app_name not in ("", name):
                continue
            for target in group.targets:
                # Serve names the node's address even where its proxy listens on loopback alone, which is its default.
                address = listens if listens and is_loopback(listens) else target.ip
                place = f"[{address}]:{target.port}" if ":" in address else f"{address}:{target.port}"
                found[place] = f"http://{place}{application.route_prefix.rstrip('/')}"
        return found


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
    ours = not ray.is_initialized()
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdigit():  # that somebody listens: ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        context: Any = ray.init(address=address, ignore_reinit_error=True, **options)
    except (OSError, RuntimeError, ValueError) as fault:
        what = f"no Ray cluster lets us in at {address!r}"
        raise UnreachableError(f"{what}: start one, correct 'address', or set ${TOKEN_VARIABLE}") from fault
    found = context.address_info.get("webui_url")
    if ours:
        ray.shutdown()
    if not found:
        raise UnreachableError(f"the Ray cluster at {address!r} has no dashboard: start it with one")
    return f"http://{found}"
