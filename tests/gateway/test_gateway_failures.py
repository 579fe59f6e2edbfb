"""What bad backends and a crowd do to the gateway, and how its clients are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from dialect_errors import ASKED, ROUTES, broken_off, each_dialect, message_of, path_to
from under_load import completed, generated


@each_dialect
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
    assert message_of(answer, route)
    if status == 429:
        assert int(answer.headers["retry-after"]) >= 1
    assert gateway.nodes() == []


ENDS = ("[DONE]", "message_stop", "response.completed")
"""How streams end that came to their end."""


@each_dialect
def test_a_backend_that_dies_mid_stream_breaks_the_stream_off_with_an_error(
    scripted: Any, serve: Any, route: str
) -> None:
    cut = scripted(otherwise={"text": "word " * 50}, faults=[{"kind": "cut", "every": 1}])
    gateway = serve(cut, route={"attempts": 1})
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), {**ROUTES[route], "stream": True})
    assert answer.status_code == 200 and 10 <= answer.text.count("word") < 40
    assert "broke" in broken_off(answer, route)
    assert not any(end in answer.text for end in ENDS)
    assert gateway.nodes() == []


@each_dialect
@pytest.mark.parametrize("stream", [False, True])
def test_a_backend_that_stalls_is_left_for_another(scripted: Any, serve: Any, route: str, stream: bool) -> None:
    stalling = scripted(faults=[{"kind": "hang", "every": 1}])
    first = {"url": stalling.url, "model": "scripted", "ids": True}
    health = {"breaker": 2, "open_seconds": 600}
    gateway = serve(first, scripted(), route={"silence_seconds": 1.0, "retry_ratio": 1.0, "health": health})
    token, body = gateway.open_run(), {**ROUTES[route], "stream": stream}
    for place in range(20):  # half of the rollouts, more or less, belong to either
        answer = gateway.post(f"/r/run/r{place}/v1/{route}", token, body)
        assert answer.status_code == 200 and "error" not in answer.text.replace('"error":null', ""), answer.text
    first = next(iter(gateway.gateway.route("scripted").router.fleet.states()))
    assert first.served == 2, "its breaker opened, so nobody waited for it again"
    assert len({node.tree_id for node in gateway.nodes()}) == 20


@each_dialect
def test_a_stream_that_stalls_is_broken_off(scripted: Any, serve: Any, route: str) -> None:
    stalling = scripted(otherwise={"text": "word " * 50}, faults=[{"kind": "slow_stream", "pause": 30.0}])
    gateway = serve(stalling, route={"silence_seconds": 0.3})
    answer = gateway.post(f"/r/run/main/v1/{route}", gateway.open_run(), {**ROUTES[route], "stream": True})
    assert "nothing came for 0.3 seconds" in broken_off(answer, route)
    assert "[DONE]" not in answer.text and "message_stop" not in answer.text
    assert gateway.nodes() == []


@each_dialect
def test_a_deadline_ends_a_request_and_whose_it_was_says_whether_the_backend_is_blamed(
    scripted: Any, serve: Any, route: str
) -> None:
    stalling = scripted(faults=[{"kind": "hang", "every": 1}])
    for headers, blamed in ({}, True), ({"x-stainless-read-timeout": "0.2"}, False):
        gateway = serve(stalling, route={"deadline": 0.5, "health": {"breaker": 1}})
        answer = gateway.post(path_to(route), gateway.open_run(), ROUTES[route], **headers)
        assert answer.status_code == 504, answer.text
        assert message_of(answer, route)
        (state,) = gateway.gateway.route("scripted").router.fleet.states()
        assert (state.trouble != "") == blamed


@each_dialect
def test_a_line_that_is_full_says_when_to_come_again(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted(latency=1.0), route={"concurrency": {"start": 1, "most": 1}}, limits={"waiting": 2})
    token = gateway.open_run()
    with ThreadPoolExecutor(12) as pool:
        paths = [path_to(route, rollout=f"r{place}") for place in range(12)]
        answers = list(pool.map(lambda path: gateway.post(path, token, ROUTES[route]), paths))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 9
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert all("come again" in message_of(answer, route) for answer in refused)


Says = Callable[[dict[str, Any]], list[bytes]]
"""The events of a stream that answers a request; a reply in one piece is the last of them."""


@pytest.fixture
def saying() -> Iterator[Callable[[Says], str]]:
    """Backends that answer whatever they are asked by what a function says: `saying(says)` gives the url."""
    with ExitStack() as stack:

        def start(says: Says) -> str:
            class Answers(BaseHTTPRequestHandler):
                def do_GET(self) -> None:  # it is healthy
                    self.send_response(200)
                    self.send_header("content-length", "0")
                    self.end_headers()

                def do_POST(self) -> None:
                    asked = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
                    events = says(asked)
                    body = (
                        b"".join(b"data: " + event + b"\n\n" for event in events) if asked.get("stream") else events[-1]
                    )
                    self.send_response(200)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: Any) -> None:
                    """Say nothing."""

            server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            return f"http://127.0.0.1:{server.server_address[1]}/v1"

        yield start


def to_another_prompt(asked: dict[str, Any]) -> list[bytes]:
    """What vLLM or SGLang says that read other ids than it was sent."""
    if "input_ids" in asked:
        read = {**asked, "input_ids": asked["input_ids"][::-1]}
        said = generated(read, "x", "v1")
    else:
        said = completed({"model": "m", "prompt": asked["prompt"][::-1]}, "x", "v1")
    return [msgspec.json.encode(said)]


@each_dialect
@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_backend_that_read_other_ids_than_it_was_sent_is_not_believed(
    serve: Any, saying: Any, route: str, kind: str, stream: bool
) -> None:
    url = saying(lambda asked: [*to_another_prompt(asked), *([b"[DONE]"] if stream else ())])
    gateway = serve({"url": url, "kind": kind}, route={"renderer": "scripted", "attempts": 1})
    answer = gateway.post(path_to(route), gateway.open_run(), {**ROUTES[route], "stream": stream})
    if stream:  # the word was handed on before the whole was judged
        assert answer.status_code == 200 and "another prompt" in broken_off(answer, route)
        assert not any(end in answer.text for end in ENDS)
    else:
        assert answer.status_code == 502, answer.text
        assert "another prompt" in message_of(answer, route)
    assert gateway.nodes() == []


GARBAGE = [b"[" * 100_000, b'{"error":{"message":"it broke","code":"\xc2\xb2"}}', b"<html>"]


def half_said(kind: str) -> Says:
    """How a stream begins."""

    def says(asked: dict[str, Any]) -> list[bytes]:
        if kind == "chat":
            said: Any = {"choices": [{"index": 0, "delta": {"content": "word"}}]}
        elif kind == "vllm":
            said = {"choices": [{"token_ids": [*b"word"], "prompt_token_ids": asked["prompt"]}]}
        else:
            said = {"output_ids": [*b"word"], "meta_info": {"completion_tokens": 4}}
        return [msgspec.json.encode(said)]

    return says


@each_dialect
@pytest.mark.parametrize("kind", ["chat", "vllm", "sglang"])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_the_midst_of_a_stream_breaks_it_off_with_an_error(
    serve: Any, saying: Any, route: str, kind: str, garbage: bytes
) -> None:
    begins = half_said(kind)
    url = saying(lambda asked: [*begins(asked), garbage, b"[DONE]"])
    gateway = serve({"url": url, "kind": kind}, route={"renderer": "scripted", "attempts": 1})
    answer = gateway.post(path_to(route), gateway.open_run(), {**ROUTES[route], "stream": True})
    assert answer.status_code == 200 and "word" in answer.text
    assert ("it broke" if b"error" in garbage else "not understood") in broken_off(answer, route)
    assert not any(end in answer.text for end in ENDS)
    assert gateway.nodes() == []


@pytest.mark.parametrize("kind", ["chat", "vllm", "sglang"])
@pytest.mark.parametrize("stream", [False, True])
def test_garbage_is_told_to_the_breaker_and_another_backend_is_tried(
    scripted: Any, serve: Any, saying: Any, kind: str, stream: bool
) -> None:
    url = saying(lambda asked: [b'{"error":' + b"[" * 100_000])
    health = {"breaker": 1, "open_seconds": 600}
    broken = {"url": url, "kind": kind}
    gateway = serve(broken, scripted(), route={"renderer": "scripted", "retry_ratio": 1.0, "health": health})
    token = gateway.open_run()
    for place in range(20):  # half of the rollouts, more or less, belong to either
        answer = gateway.chat(token, {**ASKED, "stream": stream}, rollout=f"r{place}")
        assert answer.status_code == 200 and "I do not" in answer.text
    first = next(iter(gateway.gateway.route("scripted").router.fleet.states()))
    assert first.served == 1 and first.breaker.phase == "open"
    assert len(gateway.nodes()) == 40
