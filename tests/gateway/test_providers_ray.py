"""A real Ray Serve application as backends. Needs ray: pip install 'ray[serve]==2.60.0'."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from silva.errors import MissingError, UnreachableError
from silva.models import Client, Endpoint, Request
from silva.models.child import free_port
from silva.models.gateway.config import Health, Route
from silva.models.gateway.providers import open_providers
from silva.models.gateway.routing import Refused, Router
from silva.models.gateway.routing.health import HealthChecks
from silva.models.retry import NO_RETRY
from silva.ray import RayBackends, RayProvider
from silva.ray.dashboard import find_dashboard
from silva.tree import user

sys.path.append(str(Path(__file__).parents[1] / "rollout"))
from ray_cluster import TOKEN, has_ray, needs_ray

BEARER = {"Authorization": f"Bearer {TOKEN}"}
"""Of the cluster that the tests start."""

APPLICATION = """
import asyncio, os
from ray import serve

@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=100)
class Model:
    async def __call__(self, request):
        await asyncio.sleep(0.05)
        message = {"role": "assistant", "content": str(os.getpid())}
        return {"id": "x", "object": "chat.completion", "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}

app = Model.bind()
"""

CLUSTER = """
import sys
import ray
from ray import serve
dashboard, proxy = map(int, sys.argv[1:])
context = ray.init("local", num_cpus=2, include_dashboard=True, dashboard_port=dashboard, log_to_driver=False,
                   object_store_memory=100_000_000)
serve.start(http_options={"host": "127.0.0.1", "port": proxy})
print("http://" + context.address_info["webui_url"], context.address_info["gcs_address"], flush=True)
sys.stdin.read()
serve.shutdown()
ray.shutdown()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("ray")
    (folder / "served_model.py").write_text(APPLICATION)
    variables = {**os.environ, "PYTHONPATH": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_raylet_start_wait_time_s": "240"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(free_port()), str(free_port())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=variables,
        )
    assert process.stdin is not None and process.stdout is not None
    line = process.stdout.readline().decode().split()
    try:
        assert len(line) == 2, (folder / "log").read_text()[-2000:]
        yield line[0], line[1]
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


async def deploy(dashboard: str, **extra: object) -> None:
    application = {"name": "policy", "import_path": "served_model:app", "route_prefix": "/policy", **extra}
    async with (
        aiohttp.ClientSession(headers=BEARER) as http,
        http.put(f"{dashboard}/api/serve/applications/", json={"applications": [application]}) as reply,
    ):
        assert reply.status == 200, await reply.text()


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.1)


async def replicas(dashboard: str) -> int:
    async with aiohttp.ClientSession(headers=BEARER) as http, http.get(f"{dashboard}/api/serve/applications/") as reply:
        deployments = json.loads(await reply.read())["applications"]["policy"]["deployments"]
        return deployments["Model"]["target_num_replicas"]


async def ask(router: Router) -> str:
    async with router.lease() as lease:
        endpoint = Endpoint(url=lease.backend.url, model="m", api_key_env="")
        async with Client(endpoint, retry=NO_RETRY) as client:
            reply = await client.complete(Request(messages=(user("hello"),)))
        lease.succeeded()
        return reply.message.text


def routed(address: str, **scaling: Any) -> tuple[Router, RayProvider]:
    chosen: Any = {"provider": "ray", "application": "policy", "address": address, **scaling}
    route = Route(backends=(chosen,), health=Health(every=0.2, open_seconds=0.2))
    (provider,) = open_providers("policy", route)
    assert isinstance(provider, RayProvider)
    return Router("policy", route), provider


def test_a_package_brings_its_backends_by_an_entry_point_and_says_what_is_wrong_with_them() -> None:
    route = Route.model_validate({"backends": [{"provider": "ray", "application": "policy", "most": 3}]})
    assert route.backends == (RayBackends(provider="ray", application="policy", most=3),)
    assert route.model_dump()["backends"][0]["application"] == "policy"
    assert Route.model_validate(route.model_dump()) == route
    with pytest.raises(ValueError, match="application: Field required"):
        Route.model_validate({"backends": [{"provider": "ray"}]})
    with pytest.raises(ValueError, match="there is no provider 'rey', only local, process, ray, static"):
        Route.model_validate({"backends": [{"provider": "rey"}]})


def test_the_gateway_does_not_import_what_nobody_named() -> None:
    code = "import sys, silva.models.gateway.serve; sys.exit('silva.ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
@needs_ray
async def test_an_application_is_found_served_scaled_and_missed_when_it_goes(
    cluster: tuple[str, str], monkeypatch
) -> None:
    dashboard, address = cluster
    router, provider = routed(dashboard)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    await provider.start(router.fleet)
    with pytest.raises(Refused, match=r"HTTP 401: put the cluster's token into \$RAY_AUTH_TOKEN"):
        await ask(router)
    await provider.stop()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    assert await asyncio.to_thread(find_dashboard, address) == dashboard
    router, provider = routed(dashboard, least=1, most=3, target=2, idle=1.0)
    await provider.start(router.fleet)
    try:
        with pytest.raises(Refused, match="Ray Serve has no application 'policy'"):
            await ask(router)
        await deploy(dashboard, external_scaler_enabled=True)
        await until(lambda: bool(provider.backends()))
        async with HealthChecks(router.fleet, Health(every=0.2)):
            first = await ask(router)
            assert first.isdigit()
            asking = [asyncio.create_task(ask(router)) for _ in range(400)]
            async with asyncio.timeout(60):
                while await replicas(dashboard) < 3:
                    asking += [asyncio.create_task(ask(router)) for _ in range(100)]
                    await asyncio.sleep(0.2)
            await asyncio.gather(*asking)
            async with asyncio.timeout(60):
                while await replicas(dashboard) > 1:  # noqa: ASYNC110 - another process sets no event
                    await asyncio.sleep(0.2)
            assert router.snapshot().backends[0].healthy
        async with aiohttp.ClientSession(headers=BEARER) as http:
            await http.delete(f"{dashboard}/api/serve/applications/")
        await until(lambda: not provider.backends())
    finally:
        await provider.stop()


@pytest.mark.skipif(has_ray, reason="ray is installed")
async def test_without_ray_one_line_says_what_to_install() -> None:
    router, provider = routed("auto")
    with pytest.raises(MissingError, match=r"pip install 'silva\[ray\]'"):
        await provider.start(router.fleet)


@pytest.mark.slow
@needs_ray
def test_no_cluster_is_told() -> None:
    with pytest.raises(UnreachableError, match=r"no Ray cluster lets us in at '127.0.0.1:1'"):
        find_dashboard("127.0.0.1:1")


async def test_a_dashboard_that_does_not_answer_is_told() -> None:
    router, provider = routed("http://127.0.0.1:1")
    await provider.start(router.fleet)
    try:
        with pytest.raises(Refused, match="the Ray dashboard does not answer"):
            await ask(router)
    finally:
        await provider.stop()
