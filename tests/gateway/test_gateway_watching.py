"""Spans reach a collector, and the metrics say what happens."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}


class Collector(BaseHTTPRequestHandler):
    """Takes spans over OTLP."""

    spans: list[Any]

    def do_POST(self) -> None:
        asked = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in asked.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    spans: list[Any] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Collector,), {"spans": spans}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", spans
    server.shutdown()
    server.server_close()


def test_turns_become_spans_in_the_clients_own_trace(
    scripted: Any, serve: Any, collector: tuple[str, list[Any]]
) -> None:
    endpoint, spans = collector
    gateway = serve(scripted(), spans={"endpoint": endpoint, "content": True})
    token = gateway.open_run()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    gateway.chat(token, ASKED, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    gateway.chat(token, {**ASKED, "model": "scripted", "max_tokens": 5})
    gateway.stop()
    assert len(spans) == 2
    first = next(span for span in spans if span.trace_id.hex() == trace)
    said = {pair.key: pair.value for pair in first.attributes}
    assert first.name == "chat scripted"
    assert said["gen_ai.operation.name"].string_value == "chat"
    assert said["gen_ai.usage.input_tokens"].int_value > 0
    assert "hello" in said["gen_ai.input.messages"].string_value
    assert "I do not know." in said["gen_ai.output.messages"].string_value


def test_without_content_no_words_leave_the_gateway(
    scripted: Any, serve: Any, collector: tuple[str, list[Any]]
) -> None:
    endpoint, spans = collector
    gateway = serve(scripted(), spans={"endpoint": endpoint})
    gateway.chat(gateway.open_run(), ASKED)
    gateway.stop()
    assert len(spans) == 1 and "hello" not in str(spans[0])


def attributes(span: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in span.attributes}


def test_refusals_failures_and_clients_that_leave_become_spans_with_their_reason(
    scripted: Any, serve: Any, collector: tuple[str, list[Any]]
) -> None:
    endpoint, spans = collector
    script = {"rules": [{"when": {"last": "break"}, "fault": {"kind": "status", "status": 500}}], "latency": 1.0}
    gateway = serve(scripted(**script), spans={"endpoint": endpoint}, route={"attempts": 1})
    token = gateway.open_run(budget={"requests": 3})

    def ask(words: str, timeout: float = 30.0, rollout: str = "") -> int:
        body = {**ASKED, "messages": [{"role": "user", "content": words}]}
        url = f"{gateway.where}/r/run/{rollout or words}/v1/chat/completions"
        return requests.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=timeout).status_code

    assert ask("fine") == 200
    assert ask("break") == 502
    with pytest.raises(requests.Timeout):
        ask("leave", timeout=0.3)
    assert ask("more") == 200
    assert ask("refused", rollout="fine") == 402
    gateway.stop()
    ended = {
        attributes(span)["silva.rollout"]: span for span in spans if attributes(span).get("error.type") != "budget"
    }
    (ended["refused"],) = (span for span in spans if attributes(span).get("error.type") == "budget")
    reasons = {rollout: attributes(span).get("error.type") for rollout, span in ended.items()}
    assert reasons == {"fine": None, "break": "upstream", "leave": "client_left", "more": None, "refused": "budget"}
    assert len(spans) == 5
    for rollout, span in ended.items():
        assert span.status.code == (Status.STATUS_CODE_ERROR if reasons[rollout] else Status.STATUS_CODE_UNSET)
    assert "budget" in ended["refused"].status.message and "HTTP 500" in ended["break"].status.message


def test_metrics_count_turns_tokens_and_refusals(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    gateway.chat(token, ASKED)
    gateway.chat(token, {**ASKED, "model": "other"})
    page = requests.get(f"{gateway.where}/metrics", timeout=10).text
    assert 'silva_turns_total{dialect="chat",model="scripted"} 1.0' in page
    assert 'silva_refusals_total{dialect="chat",kind="not_found"} 1.0' in page
    assert 'silva_tokens_total{kind="completion",model="scripted"}' in page
    assert 'silva_turn_seconds_count{model="scripted"} 1.0' in page


def metric(gateway: Any, name: str, **labels: str) -> float:
    """The value of a metric, or of those with these labels in sum."""
    page = requests.get(f"{gateway.where}/metrics", timeout=10).text
    found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", page, re.MULTILINE)
    assert found, f"there is no {name}"
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for given, value in found if all(each in given for each in wanted))


def test_metrics_say_who_waits_and_what_is_up(scripted: Any, serve: Any) -> None:
    up = scripted(latency=1.0)
    health = {"every": 0.1, "failures": 1}
    dead = {"url": "http://127.0.0.1:1/v1"}
    gateway = serve(up, dead, route={"concurrency": {"start": 2, "most": 2}, "health": health})
    token = gateway.open_run()
    gateway.open_run("another")
    assert metric(gateway, "silva_runs_open") == 2
    until = time.monotonic() + 10
    while metric(gateway, "silva_backend_up") != 1 and time.monotonic() < until:
        time.sleep(0.02)
    assert metric(gateway, "silva_backend_up", model="scripted", backend=dead["url"]) == 0
    assert metric(gateway, "silva_backend_up", model="scripted", backend=up.url) == 1
    assert metric(gateway, "silva_backend_limit", model="scripted", backend=up.url) == 2
    with ThreadPoolExecutor(5) as pool:
        asking = [pool.submit(gateway.chat, token, ASKED, f"r{number}") for number in range(5)]
        until = time.monotonic() + 5
        while metric(gateway, "silva_waiting", model="scripted") != 3 and time.monotonic() < until:
            time.sleep(0.02)
        assert metric(gateway, "silva_waiting", model="scripted") == 3
        assert metric(gateway, "silva_in_flight", model="scripted") == 2
        assert all(each.result().ok for each in asking)
    assert metric(gateway, "silva_waiting") == metric(gateway, "silva_in_flight") == 0
    assert gateway.admin("POST", "runs/another/close").ok
    assert metric(gateway, "silva_runs_open") == 1


def test_metrics_count_retries_breakers_and_who_got_no_backend(scripted: Any, serve: Any) -> None:
    broken, fine = scripted(faults=[{"kind": "status", "status": 500}]), scripted()
    health = {"breaker": 2, "open_seconds": 600}
    first = {"url": broken.url, "model": "scripted"}
    gateway = serve(first, fine, route={"health": health, "retry_ratio": 1.0})
    token = gateway.open_run()
    assert all(gateway.chat(token, ASKED, rollout=f"r{number}").ok for number in range(20)), "half belong to either"
    assert metric(gateway, "silva_retries_total", model="scripted") == 2
    assert metric(gateway, "silva_breaker_openings_total", model="scripted", backend=broken.url) == 1
    assert metric(gateway, "silva_breaker_openings_total", model="scripted", backend=fine.url) == 0
    gateway.stop()
    held = serve(scripted(faults=[{"kind": "rate_limit", "retry_after": 30}]), limits={"wait_seconds": 1.0})
    token = held.open_run()
    assert [held.chat(token, ASKED).status_code for _ in range(2)] == [429, 429]
    assert metric(held, "silva_no_place_total", model="scripted", reason="held") == 1
