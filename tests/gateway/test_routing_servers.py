"""The router, its health checks and its attempts over real scripted servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random

import aiohttp
import pytest

from silva.models import Client, Endpoint, ModelError, Request
from silva.models.gateway.config import Concurrency, Health, Route, StaticBackend
from silva.models.gateway.providers import open_providers
from silva.models.gateway.routing import Backend, Router
from silva.models.gateway.routing.health import HealthChecks, check
from silva.models.retry import NO_RETRY
from silva.models.scripted import Answer, Fault, Latency, Script, ScriptedServer
from silva.models.serving import Exchange
from silva.tree import user

ASK = Request(messages=(user("hello"),))
QUICK = Health(every=0.05, timeout=1.0, failures=2, breaker=3, open_seconds=0.1)


def script(name: str, *faults: Fault, latency: float = 0.0) -> Script:
    return Script(otherwise=Answer(text=name), faults=faults, latency=Latency(mean=latency))


class Gate:
    """A route over scripted servers, and a client for each: what a gateway does with a router, in short."""

    def __init__(self, servers: list[ScriptedServer], **route: object) -> None:
        backends = tuple(StaticBackend(url=server.url, model="scripted") for server in servers)
        config = Route(backends=backends, **{"health": QUICK, **route})  # type: ignore[arg-type]
        self.router = Router("policy", config)
        self.config = config
        self.clients: dict[str, Client] = {}

    async def __aenter__(self) -> Gate:
        self.stack = AsyncExitStack()
        for provider in open_providers("policy", self.config):
            await provider.start(self.router.fleet)
            self.stack.push_async_callback(provider.stop)
        for state in self.router.fleet.states():
            endpoint = Endpoint(url=state.backend.url, model=state.backend.model, api_key_env="")
            client = Client(endpoint, retry=NO_RETRY, random=Random(0))
            self.clients[state.backend.name] = client
            self.stack.push_async_callback(client.close)
        await self.stack.enter_async_context(HealthChecks(self.router.fleet, self.config.health))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def ask(self, session: str = "", run: str = "") -> str:
        attempts = self.router.attempts()
        while True:
            lease = self.router.lease(session=session, run=run, exclude=attempts.exclude)
            try:
                async with lease:
                    completion = await self.clients[lease.backend.name].complete(ASK)
                    lease.succeeded(completion.message.text)
                    return completion.message.text
            except ModelError as error:
                if not await attempts.again(error, lease.backend.name):
                    raise

    def seen(self, what: str) -> list[object]:
        return [getattr(backend, what) for backend in self.router.snapshot().backends]

    async def until(self, what: str, values: list[object]) -> None:
        async with asyncio.timeout(10):
            while self.seen(what) != values:  # noqa: ASYNC110 - a health check sets no event
                await asyncio.sleep(0.01)


@pytest.fixture
async def serve() -> AsyncIterator[object]:
    async with AsyncExitStack() as stack:

        def start(one: Script, port: int = 0, token: str | None = None) -> ScriptedServer:
            server = ScriptedServer(one, port=port, token=token).start()
            stack.callback(server.stop)
            return server

        yield start


async def test_a_server_that_dies_fails_nothing_and_comes_back(serve) -> None:
    servers = [serve(script(name)) for name in "ab"]
    async with Gate(servers, retry_ratio=1.0, attempts=2) as gate:
        assert {await gate.ask(session=f"s{n}") for n in range(20)} == {"a", "b"}
        port = int(servers[0].url.rsplit(":", 1)[1].split("/")[0])
        await asyncio.to_thread(servers[0].stop)
        assert [await gate.ask(session=f"s{n}") for n in range(20)] == ["b"] * 20
        await gate.until("healthy", [False, True])
        served = gate.seen("served")[0]
        assert [await gate.ask(session=f"s{n}") for n in range(20)] == ["b"] * 20
        assert gate.seen("served")[0] == served, "an unhealthy backend is asked nothing"
        serve(script("a"), port)
        await gate.until("healthy", [True, True])
        await asyncio.sleep(QUICK.open_seconds)
        assert {await gate.ask(session=f"s{n}") for n in range(20)} == {"a", "b"}
        assert gate.router.snapshot().refused == {}


async def test_a_breaker_opens_on_a_server_whose_health_is_fine(serve) -> None:
    servers = [serve(script("a", Fault(kind="status", status=500))), serve(script("b"))]
    async with Gate(servers, retry_ratio=1.0, health=Health(every=0.05, breaker=3, open_seconds=60.0)) as gate:
        assert [await gate.ask() for _ in range(30)] == ["b"] * 30
        assert gate.seen("phase") == ["open", "closed"]
        assert gate.seen("healthy") == [True, True]
        assert servers[0].requests == 3


async def test_a_failure_of_the_request_itself_is_tried_nowhere_else(serve) -> None:
    servers = [serve(script(name, Fault(kind="context_length"))) for name in "ab"]
    async with Gate(servers) as gate:
        with pytest.raises(ModelError):
            await gate.ask()
        assert sum(server.requests for server in servers) == 1
        assert gate.seen("phase") == ["closed", "closed"]


async def test_overload_shrinks_the_limit_and_success_widens_it(serve) -> None:
    server = serve(script("a", Fault(kind="rate_limit", every=4)))
    async with Gate([server], concurrency=Concurrency(start=16, most=64), retry_ratio=1.0, attempts=8) as gate:
        before = gate.seen("limit")
        answers = await asyncio.gather(*(gate.ask() for _ in range(40)), return_exceptions=True)
        assert answers.count("a") >= 30
        assert gate.seen("limit") < before
        assert gate.seen("phase") == ["closed"], "a 429 is an answer"


async def test_changing_versions_under_load_fails_nothing(serve) -> None:
    latency = 0.003
    old, new = serve(script("v0", latency=latency)), serve(script("v1", latency=latency))
    async with Gate([old, new], concurrency=Concurrency(start=8, most=8)) as gate:
        first, second = (state.backend for state in gate.router.fleet.states())
        gate.router.fleet.remove(second.name)
        answers: list[str] = []
        done = asyncio.Event()

        async def ask_on(n: int) -> None:
            while not done.is_set():
                answers.append(await gate.ask(session=f"s{n}", run=f"r{n % 3}"))

        async def change(to: Backend, gone: Backend) -> None:
            assert gate.router.in_flight == 0
            await asyncio.sleep(0.02)
            gate.router.fleet.remove(gone.name)
            gate.router.fleet.add(to)

        async def fail() -> None:
            raise FileNotFoundError("no weights")

        asking = [asyncio.create_task(ask_on(n)) for n in range(40)]
        await asyncio.sleep(0.1)
        await gate.router.swap(lambda: change(second, first), "v1")
        cut = len(answers)
        await asyncio.sleep(0.1)
        with pytest.raises(FileNotFoundError):
            await gate.router.swap(fail, "v2")
        await asyncio.sleep(0.1)
        done.set()
        await asyncio.gather(*asking)  # raises where one failed
        assert set(answers[:cut]) == {"v0"} and set(answers[cut:]) == {"v1"}
        assert len(answers) - cut > 40
        assert gate.router.version == "v1" and gate.router.snapshot().refused == {}


async def test_runs_share_a_server_by_counts(serve) -> None:
    server = serve(script("a", latency=0.002))
    async with Gate([server], concurrency=Concurrency(start=4, most=4)) as gate:
        order: list[str] = []

        async def ask(run: str) -> None:
            await gate.ask(run=run)
            order.append(run)

        flood = [asyncio.create_task(ask("flood")) for _ in range(300)]
        await asyncio.sleep(0.01)
        await asyncio.gather(*(ask("small") for _ in range(20)))
        counted = Counter(order)
        assert counted["small"] == 20
        assert counted["flood"] <= 60, "20 requests of one run wait for about as many of the other"
        await asyncio.gather(*flood)


async def test_what_a_health_check_finds(serve) -> None:
    server = serve(script("a"), token="right")
    async with aiohttp.ClientSession() as http:
        for kind in ("chat", "silva"):
            for token in ("right", "wrong"):
                assert (await check(http, Backend(name="a", url=server.url, kind=kind, token=token), 1.0)).healthy
        missing = await check(http, Backend(name="a", url=server.url, kind="vllm", token="right"), 1.0)
        assert not missing.healthy and missing.trouble == "health check: HTTP 404"
        nobody = await check(http, Backend(name="a", url="http://127.0.0.1:1/v1"), 1.0)
        assert not nobody.healthy and "health check: " in nobody.trouble


async def test_a_health_check_learns_the_version_and_sends_the_key(monkeypatch) -> None:
    seen: list[str] = []

    async def app(scope, receive, send) -> None:
        if scope["type"] == "http":
            exchange = Exchange(scope, receive, send)
            seen.append(exchange.header(b"authorization"))
            await exchange.send(200, b'{"policy_version":"sha-7"}')
        else:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

    from silva.models.serving import ServerThread

    monkeypatch.setenv("HEALTH_KEY", "k1")
    async with ServerThread(app) as server:
        router = Router("policy", Route(backends=(StaticBackend(url=server.url),), health=QUICK))
        router.fleet.add(Backend(name="a", url=server.url, api_key_env="HEALTH_KEY"))
        async with HealthChecks(router.fleet, QUICK), asyncio.timeout(10):
            while router.snapshot().backends[0].version != "sha-7":  # noqa: ASYNC110 - a health check sets no event
                await asyncio.sleep(0.01)
    assert seen[0] == "Bearer k1"
