"""A thousand clients at once: all of them are at the gateway at one moment, and all of them are answered."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from commands import EXPORTS, started
from dialect_errors import ASKED

from silva.lake import Lake
from silva.models.scripted import ScriptedApp, load_script
from silva.models.serving import ChatRequest, Exchange, ServerThread
from silva.models.serving.bounds import open_files

CROWD = 1000
PATIENCE = 120.0
"""Seconds in which a thousand clients have asked, however busy the machine is."""
AT_ONCE = {"start": 1024, "most": 1024}


class Held(ScriptedApp):
    """A model that answers nobody until it is released."""

    def __init__(self, script: Path) -> None:
        super().__init__(load_script(script))
        self._released = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def release(self) -> None:
        """Answer all; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._released.set)

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        """See the class."""
        self._loop = asyncio.get_running_loop()
        await self._released.wait()
        await super().chat(request, exchange)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Held, str]]:
    """A held model and its url."""
    script = tmp_path / "script.yaml"
    script.write_text("otherwise: {text: I do not know.}\n")
    app = Held(script)
    with ServerThread(app) as server:
        yield app, server.url


def gauge(page: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", page, re.MULTILINE))


def at_work(where: str) -> float:
    """Requests at backends and in line."""
    page = requests.get(f"{where}/metrics", timeout=30).text
    return gauge(page, "silva_in_flight") + gauge(page, "silva_waiting")


def crowd(held: Held, where: str, run: str, token: str, model: str) -> tuple[float, list[bytes]]:
    """Ask a thousand times at once: how many were at work at one moment, and the first line of every answer."""
    host, port = where.removeprefix("http://").split(":")
    body = json.dumps({**ASKED, "model": model}).encode()
    clients: list[socket.socket] = []
    try:
        for place in range(CROWD):
            clients.append(socket.create_connection((host, int(port)), timeout=60))
            head = f"POST /r/{run}/r{place}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            head += f"authorization: Bearer {token}\r\n"
            clients[-1].sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        most, until = 0.0, time.monotonic() + PATIENCE
        while most < CROWD and time.monotonic() < until:
            most = max(most, at_work(where))
        held.release()
        return most, [client.recv(65536).splitlines()[0] for client in clients]
    finally:
        for client in clients:
            client.close()


@pytest.fixture(autouse=True)
def enough_files() -> None:
    """The clients and the model are in this process."""
    if short := open_files(2 * CROWD):
        pytest.skip(short)


def test_a_thousand_clients_at_once_are_all_answered(held: tuple[Held, str], serve: Any) -> None:
    model, url = held
    gateway = serve({"url": url, "model": "scripted", "ids": True}, route={"concurrency": AT_ONCE})
    most, answers = crowd(model, gateway.where, "run", gateway.open_run(), "scripted")
    assert most == CROWD, "all of them were there at one moment"
    assert answers == [b"HTTP/1.1 200 OK"] * CROWD
    assert len({node.tree_id for node in gateway.nodes()}) == CROWD


def test_a_thousand_clients_at_once_where_files_are_few_until_the_gateway_asks_for_more(
    held: tuple[Held, str], tmp_path: Path
) -> None:
    model = f"mine={held[1]}#scripted"
    more = f"models.mine.concurrency={json.dumps(AT_ONCE)}"
    given = ("--model", model, "--run", "crowd", more)
    with started(tmp_path / "lake", *given, lines=1 + EXPORTS, shell="ulimit -Sn 1024") as gateway:
        most, answers = crowd(held[0], gateway.where, "crowd", gateway.exports["OPENAI_API_KEY"], "mine")
        assert (most, answers) == (CROWD, [b"HTTP/1.1 200 OK"] * CROWD)
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        assert len(lake.trajectories(run_id="crowd")) == CROWD
