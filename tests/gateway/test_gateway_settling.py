"""No reply comes to its end before its turn is on disk; nor does one that is given again."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest
import requests
from dialect_errors import ROUTES, each_dialect, path_to
from disks import SlowDisk

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}


def test_a_repeated_request_waits_for_the_disk_although_the_first_client_left(
    scripted: Any, serve: Any, monkeypatch: Any
) -> None:
    model = scripted(otherwise={"text": "one two"})
    gateway = serve(model)
    token = gateway.open_run()
    gateway.chat(token, {**ASKED, "messages": [{"role": "user", "content": "the rollout is known by now"}]})
    disk = SlowDisk(gateway.keeper.lake.submit_encoded)
    monkeypatch.setattr(gateway.keeper.lake, "submit_encoded", disk)
    first = requests.Session()
    url = f"{gateway.where}/r/run/main/v1/chat/completions"
    headers = {"Authorization": f"Bearer {token}"}
    leaving = first.post(url, json={**ASKED, "stream": True}, headers=headers, stream=True, timeout=30)
    assert disk.held.wait(10)
    leaving.close()
    first.close()
    deadline = time.monotonic() + 10
    while gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < deadline:
        time.sleep(0.02)
    replies: list[requests.Response] = []
    again = threading.Thread(
        target=lambda: replies.append(
            gateway.chat(token, {**ASKED, "stream": True}, **{"x-stainless-retry-count": "1"})
        )
    )
    again.start()
    again.join(0.5)
    try:
        assert not replies, "nothing of it is on disk yet"
    finally:
        disk.go()
    again.join(20)
    assert replies[0].headers["x-silva-capture"] == "repeated"
    monkeypatch.undo()
    fresh = gateway.chat(token, {**ASKED, "stream": True})
    assert fresh.headers["x-silva-capture"] == "streamed", "the answer that was owed has been given"
    assert len([node for node in gateway.nodes() if node.message.role == "assistant"]) == 3
    assert model.requests == 3


@each_dialect
def test_a_stream_ends_only_once_its_turn_is_on_disk(scripted: Any, serve: Any, monkeypatch: Any, route: str) -> None:
    gateway = serve(scripted(otherwise={"text": "one two"}))
    token = gateway.open_run()
    gateway.chat(token, {**ASKED, "messages": [{"role": "user", "content": "the rollout is known by now"}]})
    disk = SlowDisk(gateway.keeper.lake.submit_encoded)
    monkeypatch.setattr(gateway.keeper.lake, "submit_encoded", disk)
    end = {"chat/completions": "[DONE]", "messages": "message_stop", "responses": "response.completed"}[route]
    said: list[str] = []

    def ask() -> None:
        url, headers = gateway.where + path_to(route), {"Authorization": f"Bearer {token}"}
        with requests.post(
            url, json={**ROUTES[route], "stream": True}, headers=headers, stream=True, timeout=30
        ) as answer:
            said.extend(piece.decode() for piece in answer.iter_content(None))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert disk.held.wait(10)
        asking.join(0.5)
        assert asking.is_alive()
        assert "one" in "".join(said) and end not in "".join(said)
    finally:
        disk.go()
    asking.join(20)
    assert end in "".join(said)


@pytest.mark.parametrize("headers", [{"x-stainless-retry-count": "1"}, {"idempotency-key": "mine"}])
def test_who_joined_a_client_that_then_left_is_given_what_was_on_its_way_to_disk(
    scripted: Any, serve: Any, monkeypatch: Any, headers: dict[str, str]
) -> None:
    model = scripted(otherwise={"text": "one two"}, latency=0.3)
    gateway = serve(model)
    token = gateway.open_run()
    gateway.chat(token, {**ASKED, "messages": [{"role": "user", "content": "the rollout is known by now"}]})
    disk = SlowDisk(gateway.keeper.lake.submit_encoded)
    monkeypatch.setattr(gateway.keeper.lake, "submit_encoded", disk)
    body = {**ASKED, "stream": True}
    host, port = gateway.where.removeprefix("http://").split(":")
    data = json.dumps(body).encode()
    key = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name == "idempotency-key")
    head = f"POST {path_to('chat/completions')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{key}"
    replies: list[requests.Response] = []
    again = threading.Thread(target=lambda: replies.append(gateway.chat(token, body, **headers)))
    try:
        with socket.create_connection((host, int(port))) as first:
            first.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            deadline = time.monotonic() + 10
            while model.requests < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            again.start()
            assert disk.held.wait(10)
        again.join(0.5)
        assert not replies
    finally:
        disk.go()
    again.join(20)
    assert replies[0].headers["x-silva-capture"] == "repeated"
    assert model.requests == 2
    monkeypatch.undo()
    assert len([node for node in gateway.nodes() if node.message.role == "assistant"]) == 2
