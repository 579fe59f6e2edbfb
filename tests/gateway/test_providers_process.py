"""Local processes as backends: real ones, started from zero, scaled, crashed, stopped, and orphaned by kill -9."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from silva.models import Client, Endpoint, Request
from silva.models.gateway.config import Concurrency, Health, Limits, LocalBackends, ProcessBackends, Route
from silva.models.gateway.providers import open_providers
from silva.models.gateway.providers.process import ProcessProvider
from silva.models.gateway.routing import Refused, Router
from silva.models.retry import NO_RETRY
from silva.tree import user

ASK = Request(messages=(user("hello"),))

SERVER = """
import os, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Authorization"] != "Bearer " + os.environ["SILVA_CHILD_TOKEN"]:
            return self.answer(401, b"{}")
        time.sleep(float(os.environ.get("SECONDS", "0")))
        self.answer(200, ('{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":'
            '"stop","message":{"role":"assistant","content":"%d"}}]}' % os.getpid()).encode())
    def log_message(self, *words):
        pass

if "--family" in sys.argv:  # a child of its own session, as inference engines have
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def server(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return str(path)


class Gate:
    """A route over a process provider."""

    def __init__(self, chosen: ProcessBackends | LocalBackends, **route: object) -> None:
        settings = {"health": Health(every=0.2, open_seconds=0.2), **route}
        self.config = Route(backends=(chosen,), **settings)  # type: ignore[arg-type]
        self.router = Router("policy", self.config, Limits(wait_seconds=120.0))

    async def __aenter__(self) -> Gate:
        self.stack = AsyncExitStack()
        (provider,) = open_providers("policy", self.config)
        assert isinstance(provider, ProcessProvider)
        self.provider = provider
        await provider.start(self.router.fleet)
        self.stack.push_async_callback(provider.stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def ask(self) -> int:
        async with self.router.lease() as lease:
            backend = lease.backend
            endpoint = Endpoint(url=backend.url, model=backend.model or "m", api_key_env="")
            async with Client(endpoint, api_key=backend.token, retry=NO_RETRY) as client:
                reply = await client.complete(ASK)
            lease.succeeded()
            return int(reply.message.text) if reply.message.text.isdigit() else -1


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # asked in two steps, between which it may go
        return False


@pytest.fixture
async def gate(server: str) -> AsyncIterator[Callable[..., Gate]]:
    async with AsyncExitStack() as stack:

        async def open_gate(*extra: str, route: dict[str, object] | None = None, **chosen: object) -> Gate:
            command = (sys.executable, server, "{port}", *extra)
            settings = {"idle": 0.4, "start_seconds": 20.0, **chosen}
            config = ProcessBackends(provider="process", command=command, **settings)  # type: ignore[arg-type]
            return await stack.enter_async_context(Gate(config, **(route or {})))

        yield open_gate  # type: ignore[misc]


async def test_the_first_request_starts_a_process_and_idleness_stops_it(gate) -> None:
    one = await gate()
    await asyncio.sleep(0.3)
    assert one.provider.backends() == () and one.router.snapshot().backends == ()
    pids = set(await asyncio.gather(*(one.ask() for _ in range(5))))
    assert len(pids) == 1
    (pid,) = pids
    assert lives(pid)
    await until(lambda: not lives(pid))
    assert one.provider.backends() == () and one.router.snapshot().backends == ()
    again = await one.ask()
    assert again != pid
    assert one.router.snapshot().refused == {}


async def test_more_load_starts_more_up_to_the_most_and_one_stays_as_the_least(gate) -> None:
    one = await gate(
        least=1, most=3, target=2, idle=1.0, variables={"SECONDS": "0.3"}, route={"concurrency": Concurrency(start=2)}
    )
    await until(lambda: len(one.provider.backends()) == 1)
    pids = await asyncio.gather(*(one.ask() for _ in range(40)))
    assert 2 <= len(set(pids)) <= 3
    await until(lambda: len(one.provider.backends()) == 1 and len([p for p in set(pids) if lives(p)]) == 1)
    await asyncio.sleep(0.5)
    assert len(one.provider.backends()) == 1


async def test_a_process_in_use_is_not_stopped(gate) -> None:
    one = await gate(idle=0.2, variables={"SECONDS": "1.5"})
    pid = await one.ask()
    assert pid > 0


async def test_a_crashed_process_is_started_again(gate) -> None:
    one = await gate(least=1)
    first = await one.ask()
    os.kill(first, signal.SIGKILL)
    await until(lambda: not one.provider.backends())
    second = await one.ask()
    assert second != first and lives(second)


async def test_a_command_that_fails_is_told_in_its_own_words(gate, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import os; print('no weights for', os.environ['SILVA_CHILD_TOKEN']); exit(3)")
    one = await gate()
    with pytest.raises(Refused, match=r"exit code 3; its last words: 'no weights for \*\*\*'") as caught:
        await one.ask()
    assert caught.value.kind == "absent"


async def test_a_command_that_does_not_exist_is_told() -> None:
    async with Gate(ProcessBackends(provider="process", command=("/no/such/server",))) as one:
        with pytest.raises(Refused, match="cannot start /no/such/server: No such file"):
            await one.ask()


async def test_a_server_that_never_gets_well_is_given_up(gate, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import time; print('loading', flush=True); time.sleep(600)")
    one = await gate(start_seconds=0.5)
    with pytest.raises(Refused, match=r"not well within 0.5 s; its last words: 'loading'"):
        await one.ask()


async def test_stopping_leaves_no_process_not_even_in_another_session(gate) -> None:
    one = await gate("--family")
    pid = await one.ask()
    children = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    assert len(children) == 1
    await one.provider.stop()
    assert not lives(pid) and not lives(children[0])


async def test_a_gateway_that_is_killed_leaves_no_process(server: str, tmp_path: Path) -> None:
    program = tmp_path / "gateway.py"
    program.write_text(
        f"""
import asyncio, json, sys
from silva.models.gateway.config import ProcessBackends, Route
from silva.models.gateway.providers import open_providers
from silva.models.gateway.routing import Router
import psutil

async def main():
    route = Route(backends=(ProcessBackends(provider="process", least=1,
        command=(sys.executable, {server!r}, "{{port}}", "--family")),))
    router = Router("policy", route)
    (provider,) = open_providers("policy", route)
    await provider.start(router.fleet)
    while not provider.backends():
        await asyncio.sleep(0.02)
    print(json.dumps([one.pid for one in psutil.Process().children(recursive=True)]), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
    )
    gateway = subprocess.Popen(  # noqa: ASYNC220 - it must outlive no event loop
        [sys.executable, str(program)], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert gateway.stdout is not None
        family = json.loads(await asyncio.to_thread(gateway.stdout.readline))
        assert len(family) == 3, "warden, server, and the server's own child"
        assert all(map(lives, family))
        gateway.send_signal(signal.SIGKILL)
        await until(lambda: not any(map(lives, family)))
    finally:
        gateway.kill()
        await asyncio.to_thread(gateway.wait)
        assert gateway.stdout is not None
        gateway.stdout.close()


async def test_silvas_own_server_is_a_process_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("model: m\notherwise: {text: '42'}\n")
    command = (sys.executable, "-m", "silva", "models", "serve", "--scripted", str(tmp_path / "script.yaml"))
    command += ("--port", "{port}", "--token-env", "SILVA_CHILD_TOKEN")
    async with Gate(ProcessBackends(provider="process", command=command, health="/healthz")) as one:
        assert await one.ask() == 42


@pytest.mark.slow
async def test_the_bundled_model_comes_from_zero() -> None:
    pytest.importorskip("torch")
    async with Gate(LocalBackends(provider="local", threads=1)) as one:
        async with one.router.lease() as lease:
            endpoint = Endpoint(url=lease.backend.url, model=lease.backend.model, api_key_env="")
            async with Client(endpoint, api_key=lease.backend.token, retry=NO_RETRY) as client:
                reply = await client.complete(ASK)
            lease.succeeded()
        assert reply.message.text
