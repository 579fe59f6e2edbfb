"""The OpenAPI document is true, whatever is sent."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from anthropic.types import Message, MessageCountTokensParams, MessageCreateParams, MessageTokensCount
from dialect_errors import ROUTES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, CompletionCreateParams
from openai.types.responses import Response, ResponseCreateParams
from pydantic import TypeAdapter
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
MODEL = "/r/{run}/{rollout}/v1/"
QUIET: dict[str, Any] = {"suppress_health_check": list(HealthCheck), "database": None}


def _asked_in_every_way(operation: Any, key: str) -> Any:
    """A property: whatever the document allows, the answer is one it tells of."""
    checks = CHECKS[1:] if operation.path == "/readyz" else CHECKS

    @settings(max_examples=10 if operation.path.startswith(MODEL) else 25, deadline=None, **QUIET)
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
        if operation.path.endswith(("/pause", "/drain")):  # a model at rest would hold up what comes after
            continue
        key = "admin-token-of-the-tests" if operation.path.startswith("/admin") else token

        _asked_in_every_way(operation, key)()
        tried.append(operation.label)
    assert len(tried) >= 16
    assert gateway.chat(gateway.open_run("afterwards"), ASKED).ok


REPLIES: dict[str, Any] = {
    "chat/completions": (ChatCompletion, CompletionCreateParams),
    "responses": (Response, ResponseCreateParams),
    "messages": (Message, MessageCreateParams),
    "messages/count_tokens": (MessageTokensCount, MessageCountTokensParams),
}
"""What the vendors publish of their APIs: a route's reply and its body."""


def test_replies_and_refusals_are_as_published_and_as_documented(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(), route={"renderer": "scripted"})
    headers = {"Authorization": f"Bearer {gateway.open_run()}"}
    schema = schemathesis.openapi.from_url(f"{gateway.where}/openapi.json")
    for tail, body in {**ROUTES, "messages/count_tokens": ASKED}.items():
        reply, asked = REPLIES[tail]
        TypeAdapter(asked).validate_python(body)
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
            if status == 200 and "stream" not in fields:
                reply.model_validate_json(answer.content, strict=True)


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
