"""What the gateway refuses, how it says so, and what bad backends and full disks do to it."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
import requests

from silva.models.gateway import keeper as keeper_module

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
ANTHROPIC: dict[str, Any] = {**ASKED, "max_tokens": 20}
RESPONSES: dict[str, Any] = {"model": "scripted", "input": "hello"}
ROUTES = {"chat/completions": ASKED, "messages": ANTHROPIC, "responses": RESPONSES}


def message_of(answer: requests.Response) -> str:
    """The words of an error, which all three dialects put in the same place."""
    return answer.json()["error"]["message"]


@pytest.mark.parametrize("route", ROUTES)
def test_who_has_no_good_token_learns_nothing(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    other = gateway.open_run("other")
    for given in ("", "sk-wrong", "sk-silva.run.wrong", other, token[:-1], "sk-silva.nothing.x"):
        answer = gateway.post(f"/r/run/main/v1/{route}", given, ROUTES[route])
        assert answer.status_code == 401, given
        assert "token" in message_of(answer)
    there, absent = (gateway.post(f"/r/{run}/main/v1/{route}", "sk-x", ROUTES[route]) for run in ("run", "absent"))
    assert message_of(there) == message_of(absent), "whether there is such a run is not told"
    assert gateway.post(f"/v1/{route}", token, ROUTES[route]).ok, "the token alone names its run"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b'{"model": "scripted", "messages": "x\xff"}', ""),
        (b"[1]", ""),
        (b'{"model": 3}', ""),
        (b'{"model": "scripted", "messages": [{"role": "user", "content": "\\ud800"}], "input": "\\ud800"}', ""),
    ],
)
def test_a_malformed_body_is_told_in_the_clients_dialect(
    scripted: Any, serve: Any, route: str, body: bytes, said: str
) -> None:
    model = scripted()
    gateway = serve(model)
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), body)
    assert answer.status_code == 400
    assert said in message_of(answer)
    assert model.requests == 0
    assert gateway.nodes() == []


def test_a_malformed_tool_is_named_by_its_place(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    tools = [{"type": "function", "function": {"name": "ok"}}, {"type": "function", "function": {"name": 7}}]
    answer = gateway.chat(token, {**ASKED, "tools": tools})
    assert answer.status_code == 400
    assert "tools[1]" in answer.text


def test_an_unknown_model_is_told_with_the_nearest_name(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    answer = gateway.chat(gateway.open_run(), {**ASKED, "model": "scriptd"})
    assert answer.status_code == 404
    assert "did you mean 'scripted'" in message_of(answer)


def test_what_is_too_large_is_refused_before_it_is_read(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"body_mb": 1})
    token = gateway.open_run()

    host, port = gateway.where.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = f"POST /r/run/main/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        connection.sendall(f"{head}Content-Length: {100 << 20}\r\n\r\n".encode() + b" " * 1000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
    assert gateway.chat(token, b" " * (3 << 20)).status_code == 413
    many = {**ASKED, "messages": ASKED["messages"] * 10_000}
    answer = gateway.chat(token, many)
    assert answer.status_code == 413 and "10000 messages" in message_of(answer)
    assert gateway.chat(token, ASKED).ok


def test_ten_thousand_messages_are_taken_where_they_are_allowed(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), limits={"messages": 20_000})
    token = gateway.open_run()
    many = [{"role": ("user", "assistant")[place % 2], "content": f"{place}"} for place in range(10_001)]
    assert gateway.chat(token, {**ASKED, "messages": many}).ok
    assert len(gateway.nodes()) == 10_002


def test_a_run_that_has_expired_or_is_closed_is_over(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    expired = gateway.open_run("short", hours=1e-9)
    answer = gateway.chat(expired, ASKED)
    assert answer.status_code == 401 and "expired" in message_of(answer)
    token = gateway.open_run("done")
    assert gateway.admin("POST", "runs/done/close").ok
    answer = gateway.chat(token, ASKED)
    assert answer.status_code == 403 and "closed" in message_of(answer)
    assert gateway.admin("POST", "runs", {"run": "done"}).status_code == 409
    assert gateway.admin("POST", "runs", {"run": "done", "again": True}).status_code == 201


@pytest.mark.parametrize("route", ROUTES)
def test_a_budget_is_hard(scripted: Any, serve: Any, route: str) -> None:
    model = scripted(latency=0.05)
    gateway = serve(model)
    token = gateway.open_run(budget={"requests": 3})
    with ThreadPoolExecutor(10) as pool:
        path = f"/r/run/main/v1/{route}"
        answers = list(pool.map(lambda _: gateway.post(path, token, ROUTES[route]).status_code, range(10)))
    assert sorted(answers) == [200] * 3 + [402] * 7
    assert model.requests == 3
    spent = gateway.admin("GET", "runs/run").json()["spent"]
    assert spent["requests"] == 3 and spent["refused"] == 7


def test_costs_are_counted_and_bound(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), route={"price": {"input": 1e6, "output": 0}})
    token = gateway.open_run(budget={"usd": 1})
    answers = [gateway.chat(token, ASKED).status_code for _ in range(3)]
    spent = gateway.admin("GET", "runs/run").json()["spent"]
    assert spent["usd"] == pytest.approx(spent["prompt_tokens"])
    assert answers == [200, 402, 402]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("fault", "status"),
    [("garbage", 502), ("disconnect", 502), ("truncated", 502), ("empty", 502), ("status", 502), ("rate_limit", 429)],
)
def test_a_backend_that_fails_is_told_and_nothing_is_kept(
    scripted: Any, serve: Any, route: str, fault: str, status: int
) -> None:
    gateway = serve(scripted(faults=[{"kind": fault, "every": 1}]), route={"attempts": 1})
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), ROUTES[route])
    assert answer.status_code == status, answer.text
    assert message_of(answer)
    if status == 429:
        assert int(answer.headers["retry-after"]) >= 1
    assert gateway.nodes() == []


@pytest.mark.parametrize("route", ROUTES)
def test_a_backend_that_dies_mid_stream_breaks_the_stream_off_with_an_error(
    scripted: Any, serve: Any, route: str
) -> None:
    cut = scripted(otherwise={"text": "word " * 50}, faults=[{"kind": "cut", "every": 1}])
    gateway = serve(cut, route={"attempts": 1})
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), {**ROUTES[route], "stream": True})
    if answer.status_code == 200:
        assert "error" in answer.text
        assert "[DONE]" not in answer.text and "message_stop" not in answer.text
        assert "response.completed" not in answer.text
    else:
        assert answer.status_code == 502
    assert gateway.nodes() == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_backend_that_stalls_is_left_for_another(scripted: Any, serve: Any, route: str, stream: bool) -> None:
    stalling = scripted(faults=[{"kind": "hang", "every": 1}])
    gateway = serve(stalling, scripted(), route={"silence_seconds": 0.2, "retry_ratio": 1.0, "health": {"breaker": 2}})
    token, body = gateway.open_run(), {**ROUTES[route], "stream": stream}
    for place in range(8):
        answer = gateway.post(f"/r/run/r{place}/v1/{route}", token, body)
        assert answer.status_code == 200 and "error" not in answer.text.replace('"error":null', ""), answer.text
    first = next(iter(gateway.gateway.route("scripted").router.fleet.states()))
    assert first.served == 2, "its breaker opened, so nobody waited for it again"
    assert len({node.tree_id for node in gateway.nodes()}) == 8


@pytest.mark.parametrize("route", ROUTES)
def test_a_stream_that_stalls_is_broken_off(scripted: Any, serve: Any, route: str) -> None:
    stalling = scripted(otherwise={"text": "word " * 50}, faults=[{"kind": "slow_stream", "pause": 30.0}])
    gateway = serve(stalling, route={"silence_seconds": 0.3})
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), {**ROUTES[route], "stream": True})
    assert "nothing came for 0.3 seconds" in answer.text
    assert "[DONE]" not in answer.text and "message_stop" not in answer.text
    assert gateway.nodes() == []


def test_a_deadline_ends_a_request_and_whose_it_was_says_whether_the_backend_is_blamed(
    scripted: Any, serve: Any
) -> None:
    stalling = scripted(faults=[{"kind": "hang", "every": 1}])
    for headers, blamed in ({}, True), ({"x-stainless-read-timeout": "0.2"}, False):
        gateway = serve(stalling, route={"deadline": 0.5, "health": {"breaker": 1}})
        answer = gateway.chat(gateway.open_run(), ASKED, **headers)
        assert answer.status_code == 504, answer.text
        (state,) = gateway.gateway.route("scripted").router.fleet.states()
        assert (state.trouble != "") == blamed


def test_a_thousand_clients_at_once_are_all_answered(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=0.01))
    token = gateway.open_run()
    with ThreadPoolExecutor(1000) as pool:
        answers = list(pool.map(lambda place: gateway.chat(token, ASKED, rollout=f"r{place}").status_code, range(1000)))
    assert answers == [200] * 1000
    assert len({node.tree_id for node in gateway.nodes()}) == 1000


def test_a_line_that_is_full_says_when_to_come_again(scripted: Any, serve: Any) -> None:
    route = {"concurrency": {"start": 1, "most": 1}}
    gateway = serve(scripted(latency=1.0), route=route, limits={"waiting": 2})
    token = gateway.open_run()
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda place: gateway.chat(token, ASKED, rollout=f"r{place}"), range(12)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 9
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


class OtherIds(BaseHTTPRequestHandler):
    """A token backend that answers to another prompt than it was sent."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        choice = {"text": "x", "token_ids": [5], "finish_reason": "stop", "logprobs": {"token_logprobs": [-0.1]}}
        body = msgspec.json.encode(
            {"choices": [{**choice, "prompt_token_ids": [1, 2, 3]}], "prompt_token_ids": [1, 2, 3]}
        )
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_backend_that_read_other_ids_than_it_was_sent_is_not_believed(serve: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), OtherIds)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        backend = {"url": f"http://127.0.0.1:{server.server_address[1]}/v1", "kind": "vllm"}
        gateway = serve(backend, route={"renderer": "scripted", "attempts": 1})
        answer = gateway.chat(gateway.open_run(), ASKED)
        assert answer.status_code == 502, answer.text
        assert "another prompt" in message_of(answer)
        assert gateway.nodes() == []
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    """`full["is"] = True`: from now on the journal's disk is full."""
    full = {"is": False}
    really = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        if full["is"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(keeper_module, "PATIENCE", 0.0)
    yield full
    full["is"] = False


def test_a_full_disk_refuses_turns_until_there_is_room_and_loses_none(
    scripted: Any, serve: Any, full_disk: dict[str, bool]
) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()
    first = gateway.chat(token, ASKED)
    assert first.ok
    full_disk["is"] = True
    refused = gateway.chat(token, ASKED)
    assert refused.status_code == 507 and "retry-after" in refused.headers
    goes_on = [*ASKED["messages"], first.json()["choices"][0]["message"], {"role": "user", "content": "more"}]
    full_disk["is"] = False
    again = gateway.chat(token, {**ASKED, "messages": goes_on})
    assert again.ok, again.text
    assert requests.get(f"{gateway.where}/readyz", timeout=10).ok
    (tree,) = gateway.trees()
    assert len(tree.leaves) == 1 and len(tree) == 4


def test_a_run_may_opt_for_best_effort_and_is_told(
    scripted: Any, serve: Any, full_disk: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "PATIENCE", 3600.0)
    gateway = serve(scripted())
    token = gateway.open_run("loose", capture="best_effort")
    strict = gateway.open_run("strict")
    assert gateway.chat(token, ASKED).headers["x-silva-capture"] == "kept"
    full_disk["is"] = True
    lost = [gateway.chat(token, ASKED) for _ in range(3)]
    assert [answer.status_code for answer in lost] == [200] * 3
    assert [answer.headers["x-silva-capture"] for answer in lost] == ["lost"] * 3
    assert gateway.chat(strict, ASKED).status_code == 507
    assert gateway.admin("GET", "runs/loose").json()["spent"]["lost"] == 3
    assert requests.get(f"{gateway.where}/readyz", timeout=10).status_code == 503
    metrics = requests.get(f"{gateway.where}/metrics", timeout=10).text
    assert "silva_store_writable 0.0" in metrics and "silva_turns_lost 3.0" in metrics


def test_admin_routes_want_the_admin_token_and_good_bodies(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    bad = {"Authorization": f"Bearer {token}"}
    assert requests.get(f"{gateway.where}/admin/runs", headers=bad, timeout=10).status_code == 401
    assert gateway.admin("POST", "runs", {"run": "../x"}).status_code == 400
    assert gateway.admin("POST", "runs", {"run": "x", "budget": {"usd": -1}}).status_code == 400
    assert gateway.admin("POST", "runs", {"run": "x", "nonsense": 1}).status_code == 400
    assert gateway.admin("GET", "runs/absent").status_code == 404
    assert gateway.admin("POST", "models/scripted/swap", {"version": "v2"}).json()["version"] == "v2"
    assert gateway.admin("POST", "models/absent/pause").status_code == 404
    assert token not in gateway.admin("GET", "runs").text


def test_a_turn_that_no_record_can_hold_is_refused_and_harms_nobody(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    wide = b'{"type": "function", "function": {"name": "f", "parameters": {"maximum": %d}}}' % 10**40
    body = b'{"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "tools": [%b]}' % wide
    answer = gateway.chat(token, body)
    assert answer.status_code in (200, 400), answer.text
    assert gateway.chat(token, ASKED).ok
    assert requests.get(f"{gateway.where}/readyz", timeout=10).ok
