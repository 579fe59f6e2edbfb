"""The OpenAPI document is true, whatever is sent; spans reach a collector."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests
import schemathesis
from dialect_described import BEYOND, whole
from dialect_errors import ROUTES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
MODEL = "/r/{run}/{rollout}/v1/"
SPOKEN = ("chat/completions", "responses", "messages", "messages/count_tokens")
POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


def _asked_in_every_way(operation: Any, key: str) -> Any:
    """A property: whatever the document allows, the answer is one it tells of."""
    checks = CHECKS[1:] if operation.path == "/readyz" else CHECKS

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {key}"}, checks=checks, timeout=20)

    return ask


def test_every_route_answers_as_its_document_says(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    schema = schemathesis.openapi.from_url(f"{gateway.where}/openapi.json")
    tried: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        # A paused or drained model would hold up what comes after it; the dialects have tests of their own.
        if operation.path.endswith(("/pause", "/drain")) or operation.path.removeprefix(MODEL) in SPOKEN:
            continue
        key = "admin-token-of-the-tests" if operation.path.startswith("/admin") else token

        _asked_in_every_way(operation, key)()
        tried.append(operation.label)
    assert len(tried) >= 12
    assert gateway.chat(gateway.open_run("afterwards"), ASKED).ok


def _spoken(gateway: Any, tail: str, mode: GenerationMode, most: int) -> Counter[int]:
    """Ask with bodies that the dialect's schema allows, or with such as it forbids; how often each status came."""
    schema = schemathesis.openapi.from_url(f"{gateway.where}/openapi.json")
    headers = {"Authorization": f"Bearer {gateway.open_run()}"}
    path = {"run": "run", "rollout": "main"}
    statuses: Counter[int] = Counter()
    cases = schema[MODEL + tail]["POST"].as_strategy(generation_mode=mode, path_parameters=path, headers=headers)

    @settings(
        max_examples=most,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(case=cases)
    def ask(case: Any) -> None:
        if mode is POSITIVE:
            case.body = whole(case.body)
        answer = case.call_and_validate(headers=headers, checks=CHECKS, timeout=30)
        if mode is NEGATIVE:
            assert answer.status_code == 400, (answer.status_code, case.body)
        elif answer.status_code != 200:
            assert answer.status_code in (400, 404) and BEYOND.search(answer.text), (answer.text, case.body)
        statuses[answer.status_code] += 1

    ask()
    return statuses


def test_replies_streams_and_refusals_are_as_documented(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), route={"renderer": "scripted"})
    headers = {"Authorization": f"Bearer {gateway.open_run()}"}
    schema = schemathesis.openapi.from_url(f"{gateway.where}/openapi.json")
    for tail, body in {**ROUTES, "messages/count_tokens": ASKED}.items():
        operation = schema[MODEL + tail]["POST"]
        for fields, status in (
            ({}, 200),
            ({"stream": True}, 200),
            ({"return_token_ids": True}, 200),
            ({"model": "other"}, 404),
            ({"temperature": "hot"}, 400),
        ):
            case = operation.Case(
                path_parameters={"run": "run", "rollout": "main"}, body=body | fields, media_type="application/json"
            )
            answer = case.call_and_validate(headers=headers, checks=CHECKS, timeout=30)
            assert answer.status_code == status, (tail, fields, answer.text)


@pytest.mark.parametrize("tail", SPOKEN)
def test_what_a_dialects_schema_allows_is_answered(scripted: Any, serve: Any, tail: str) -> None:
    gateway = serve(scripted(), route={"aliases": ["*"], "renderer": "scripted"})
    assert _spoken(gateway, tail, POSITIVE, 8)[200] >= 2


@pytest.mark.parametrize("tail", SPOKEN[:3])
def test_what_a_dialects_schema_forbids_is_refused(scripted: Any, serve: Any, tail: str) -> None:
    gateway = serve(scripted(), route={"aliases": ["*"], "renderer": "scripted"})
    assert _spoken(gateway, tail, NEGATIVE, 5)[400] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", [POSITIVE, NEGATIVE])
@pytest.mark.parametrize("tail", SPOKEN)
def test_many_bodies_of_a_dialects_schema(scripted: Any, serve: Any, tail: str, mode: GenerationMode) -> None:
    gateway = serve(scripted(), route={"aliases": ["*"], "renderer": "scripted"})
    assert _spoken(gateway, tail, mode, 60)[200 if mode is POSITIVE else 400] >= 20


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.text(max_size=60), method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
def test_no_path_brings_it_down(door: Any, path: str, method: str) -> None:
    where, token = door
    url = f"{where}/{requests.utils.quote(path, safe='/?&=')}"
    answer = requests.request(method, url, headers={"Authorization": f"Bearer {token}"}, timeout=20)
    assert answer.status_code < 500


@pytest.fixture
def door(scripted: Any, serve: Any) -> tuple[str, str]:
    gateway = serve(scripted())
    return gateway.where, gateway.open_run()


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
