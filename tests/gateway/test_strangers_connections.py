"""Connections, heads and bodies of strangers: how many there may be, how long they may be, how long they may take."""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from dialect_errors import ASKED

from silva.models.serving import protocol


def connected(gateway: Any) -> socket.socket:
    host, port = gateway.where.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=20)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def told(connection: socket.socket) -> bytes:
    """All that the server says until it closes."""
    said = b""
    while piece := connection.recv(65536):
        said += piece
    return said


def answer(connection: socket.socket) -> bytes:
    """One answer on a connection that stays open."""
    said = connection.recv(65536)
    head, _, body = said.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None, said
    while len(body) < int(length[1]):
        body += connection.recv(65536)
    return head.splitlines()[0]


def health(more: bytes = b"") -> bytes:
    return b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + more + b"\r\n"


def long(size: int) -> bytes:
    return json.dumps({**ASKED, "messages": [{"role": "user", "content": "x" * size}]}).encode()


def asking(token: str, body: bytes, more: bytes = b"") -> bytes:
    head = f"POST /r/run/main/v1/chat/completions HTTP/1.1\r\nhost: [::1]\r\nauthorization: Bearer {token}\r\n".encode()
    return head + b"content-length: %d\r\n" % len(body) + more + b"\r\n"


def test_connections_over_the_bound_are_refused_and_the_others_are_not_disturbed(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"connections": 8})
    with ExitStack() as stack:
        held = [stack.enter_context(connected(gateway)) for _ in range(8)]
        for each in held:
            each.sendall(health())
            assert answer(each) == b"HTTP/1.1 200 OK"
        for _ in range(5):
            with connected(gateway) as refused:
                said = told(refused)
                assert said.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in said, said
                assert b"8 connections at once" in said
        for each in held:
            each.sendall(health())
            assert answer(each) == b"HTTP/1.1 200 OK", "who was there before goes on"
        held[0].close()
        until = time.monotonic() + 10
        while True:
            with connected(gateway) as again:
                again.sendall(health())
                if again.recv(65536).startswith(b"HTTP/1.1 200"):
                    break
            assert time.monotonic() < until, "a place that is free again is taken"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", b"414"),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nlong: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"many: x\r\n" * 8000 + b"\r\n", b"431"),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nendless: " + b"x" * 2_000_000, b"431"),
        (b"GET /" + b"x" * 2_000_000, b"414"),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nlong: " + b"x" * 60_000 + b"\r\n\r\n", b"200"),
    ],
    ids=["url", "header", "headers", "endless header", "endless url", "within"],
)
@pytest.mark.parametrize("step", [1000, 10_000_000])
def test_a_head_that_is_too_long_is_refused_before_a_token_is_looked_at(
    scripted: Any, serve: Any, head: bytes, status: bytes, step: int
) -> None:
    gateway = serve(scripted())
    with connected(gateway) as connection:
        for place in range(0, len(head), step):
            connection.sendall(head[place : place + step])
        connection.shutdown(socket.SHUT_WR)
        said = told(connection)
    assert said.startswith(b"HTTP/1.1 " + status), said[:200]
    assert requests.get(f"{gateway.where}/healthz", timeout=10).ok


def test_a_large_request_and_the_beginning_of_the_next_are_no_long_head(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(otherwise={"text": "ok"}))
    token = gateway.open_run()
    body = long(300_000)
    with connected(gateway) as connection:
        connection.sendall(asking(token, body) + body + health()[:30])
        assert answer(connection) == b"HTTP/1.1 200 OK"
        connection.sendall(health()[30:])
        assert answer(connection) == b"HTTP/1.1 200 OK"


def test_who_does_not_send_a_request_in_time_is_let_go(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"arrival_seconds": 1.0})
    token = gateway.open_run()
    body = json.dumps(ASKED).encode()
    silent = {
        "nothing": (b"", b""),
        "newlines": (b"\r\n", b""),
        "half a head": (b"GET /healthz HTTP/1.1\r\nho", b"HTTP/1.1 408 "),
        "half a body": (asking(token, body) + body[:20], b"HTTP/1.1 408 "),
        "a body not begun": (asking(token, body), b"HTTP/1.1 408 "),
        "after a request": (health() + b"GET /heal", b"HTTP/1.1 200 "),
    }
    began = time.monotonic()
    with ExitStack() as stack:
        held = {name: stack.enter_context(connected(gateway)) for name in silent}
        for name, connection in held.items():
            connection.sendall(silent[name][0])
        for name, connection in held.items():
            said = told(connection)
            assert said.startswith(silent[name][1]) and bool(said) == bool(silent[name][1]), (name, said)
        assert said.count(b"HTTP/1.1 408 ") == 1, "what it had asked before was answered"
    assert 0.9 < time.monotonic() - began < 15


@pytest.mark.parametrize("what", ["head", "body"])
def test_who_sends_a_byte_now_and_then_is_let_go_too(scripted: Any, serve: Any, what: str) -> None:
    gateway = serve(scripted(), limits={"arrival_seconds": 1.0})
    token = gateway.open_run()
    body = b" " * 4000
    sent = asking(token, body)[:60] if what == "head" else asking(token, body)
    with connected(gateway) as connection:
        connection.sendall(sent)
        began = time.monotonic()
        try:
            while time.monotonic() - began < 15:
                connection.sendall(b"x")
                time.sleep(0.2)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() - began < 12


def test_who_is_slow_but_makes_progress_is_answered_and_so_is_who_waits_long(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=3.0), limits={"arrival_seconds": 1.0})
    token = gateway.open_run()
    body = long(30_000)
    with connected(gateway) as connection:
        connection.sendall(asking(token, body))
        for place in range(0, len(body), 4000):
            connection.sendall(body[place : place + 4000])
            time.sleep(0.3)
        assert answer(connection) == b"HTTP/1.1 200 OK"
        time.sleep(3.0)  # a connection at rest is kept
        connection.sendall(health())
        assert answer(connection) == b"HTTP/1.1 200 OK"


def test_bodies_in_pieces_share_their_room_and_give_it_back(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"bodies_mb": 4.0, "arrival_seconds": 30.0})
    token = gateway.open_run()
    body = long(3_000_000)
    with connected(gateway) as half, connected(gateway) as other:
        half.sendall(asking(token, body) + body[:2_500_000])
        time.sleep(0.5)  # it is read, and waited for
        other.sendall(asking(token, body) + body)
        said = told(other)
        assert said.startswith(b"HTTP/1.1 429 "), said
        assert gateway.chat(token, ASKED, rollout="small").ok, "small ones go on"
        half.sendall(body[2_500_000:])
        assert answer(half) == b"HTTP/1.1 200 OK"
    with connected(gateway) as left:
        left.sendall(asking(token, body) + body[:2_500_000])
        time.sleep(0.3)
    assert gateway.chat(token, body, rollout="again").ok, "who left gave its room back"
    metrics = requests.get(f"{gateway.where}/metrics", timeout=10).text
    assert 'silva_refusals_total{dialect="chat",kind="rate_limit"} 1.0' in metrics


def test_who_was_refused_gives_its_room_back_before_it_leaves(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"bodies_mb": 4.0, "arrival_seconds": 1.0})
    token = gateway.open_run()
    body = long(3_000_000)
    with connected(gateway) as stays:
        stays.sendall(asking(token, body) + body[:2_500_000])
        assert stays.recv(12) == b"HTTP/1.1 408"
        assert gateway.chat(token, body).ok
        stays.sendall(body[2_500_000:])
        assert b"did not come within 1 seconds" in told(stays)
    assert len(gateway.trees()) == 1, "and what came later was no request"


def test_who_goes_on_sending_reads_why_it_was_refused(
    scripted: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = serve(scripted(), limits={"body_mb": 1})
    token = gateway.open_run()
    head = asking(token, b" " * (64 << 20))
    with connected(gateway) as connection:
        connection.sendall(head)
        for _ in range(8):  # the answer is on its way after the first
            connection.sendall(b" " * (1 << 20))
            time.sleep(0.05)
        said = told(connection)
    assert said.startswith(b"HTTP/1.1 413 ") and b"larger than 1048576 bytes" in said
    assert gateway.gateway._held.bytes == 0
    monkeypatch.setattr(protocol, "LINGER_SECONDS", 0.3)
    with connected(gateway) as connection, pytest.raises(OSError):
        connection.sendall(head)
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)
