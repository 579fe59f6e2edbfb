"""A thousand clients at once: all of them are at the gateway at one moment, and all of them are answered."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from commands import EXPORTS, started
from dialect_errors import ASKED

from silva.lake import Lake
from silva.models.serving.bounds import open_files

CROWD = 1000
SECONDS = 10.0
"""How long a model takes: longer than a thousand clients need to ask."""
AT_ONCE = {"start": 1024, "most": 1024}


def gauge(page: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", page, re.MULTILINE))


def at_work(where: str) -> float:
    """Requests at backends and in line."""
    page = requests.get(f"{where}/metrics", timeout=30).text
    return gauge(page, "silva_in_flight") + gauge(page, "silva_waiting")


def crowd(where: str, run: str, token: str, model: str) -> tuple[float, list[bytes]]:
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
        most, until = 0.0, time.monotonic() + 2 * SECONDS
        while most < CROWD and time.monotonic() < until:
            most = max(most, at_work(where))
        return most, [client.recv(65536).splitlines()[0] for client in clients]
    finally:
        for client in clients:
            client.close()


@pytest.fixture(autouse=True)
def enough_files() -> None:
    """The clients and the model are in this process."""
    if short := open_files(2 * CROWD):
        pytest.skip(short)


def test_a_thousand_clients_at_once_are_all_answered(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=SECONDS), route={"concurrency": AT_ONCE})
    most, answers = crowd(gateway.where, "run", gateway.open_run(), "scripted")
    assert most == CROWD, "all of them were there at one moment"
    assert answers == [b"HTTP/1.1 200 OK"] * CROWD
    assert len({node.tree_id for node in gateway.nodes()}) == CROWD


def test_a_thousand_clients_at_once_where_files_are_few_until_the_gateway_asks_for_more(
    scripted: Any, tmp_path: Path
) -> None:
    model = f"mine={scripted(latency=SECONDS).url}#scripted"
    more = f"models.mine.concurrency={json.dumps(AT_ONCE)}"
    given = ("--model", model, "--run", "crowd", more)
    with started(tmp_path / "lake", *given, lines=1 + EXPORTS, shell="ulimit -Sn 1024") as gateway:
        most, answers = crowd(gateway.where, "crowd", gateway.exports["OPENAI_API_KEY"], "mine")
        assert (most, answers) == (CROWD, [b"HTTP/1.1 200 OK"] * CROWD)
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        assert len(lake.trajectories(run_id="crowd")) == CROWD
