"""The OpenAPI document is true, whatever is sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import requests
import schemathesis
from dialect_described import BEYOND, whole
from dialect_errors import ROUTES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
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
