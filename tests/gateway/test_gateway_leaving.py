"""Clients that leave, or stay and read nothing: the backend is let go of, and the run is charged."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests
from dialect_errors import ROUTES, each_dialect, path_to
from endless import endless


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    ends = time.monotonic() + seconds
    while not true() and time.monotonic() < ends:
        time.sleep(0.02)
    return true()


@each_dialect
def test_a_client_that_hangs_up_mid_stream_stops_the_backend(serve: Any, route: str) -> None:
    with endless("word ", pause=0.02) as model:
        gateway = serve({"url": model.url, "model": "scripted"})
        token = gateway.open_run()
        url, headers = f"{gateway.where}{path_to(route)}", {"Authorization": f"Bearer {token}"}
        body = {**ROUTES[route], "stream": True}
        with requests.post(url, json=body, headers=headers, stream=True, timeout=30) as answer:
            next(answer.iter_content(16))
            assert not model.stopped.is_set()
        assert model.stopped.wait(10)
        assert until(lambda: gateway.admin("GET", "runs/run").json()["in_flight"] == 0)
        assert gateway.nodes() == []


@each_dialect
@pytest.mark.parametrize("bound", ["silence", "deadline"])
def test_a_client_that_stays_and_reads_nothing_is_hung_up_on(serve: Any, route: str, bound: str) -> None:
    with endless("word " * 10_000) as model:
        patience = {"silence_seconds": 0.5} if bound == "silence" else {"deadline": 1.0}
        backend = {"url": model.url, "model": "scripted"}
        gateway = serve(backend, route={**patience, "concurrency": {"start": 1, "most": 1}, "health": {"breaker": 1}})
        token = gateway.open_run()
        host, port = gateway.where.removeprefix("http://").split(":")
        data = json.dumps({**ROUTES[route], "stream": True}).encode()
        head = f"POST {path_to(route)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            assert connection.recv(16)
            assert model.stopped.wait(10), "the backend's place is free, although the client is still there"
            assert until(lambda: gateway.admin("GET", "runs/run").json()["in_flight"] == 0)
        spent = gateway.admin("GET", "runs/run").json()["spent"]
        assert spent["abandoned"] == 1 and spent["broken_off"]["completion_tokens"] > 0
        (state,) = gateway.gateway.route("scripted").router.fleet.states()
        assert state.trouble == "", "it is not the backend's fault"
        assert gateway.nodes() == []
