"""What the OpenAPI document says of a dialect and what its reader does are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from dialect_described import BEYOND
from dialect_whole_bodies import ANTHROPIC, CHAT, RESPONSES
from test_dialect_hostile import HOSTILE, at, places

from silva.models.gateway.dialects import Anthropic, Chat, Malformed, Responses
from silva.models.gateway.openapi import document

TAILS: dict[str, tuple[Callable[[bytes], Any], dict[str, Any]]] = {
    "chat/completions": (Chat().decode, CHAT),
    "responses": (Responses().decode, RESPONSES),
    "messages": (Anthropic().decode, ANTHROPIC),
    "messages/count_tokens": (Anthropic().decode_count, ANTHROPIC),
}
each = pytest.mark.parametrize("tail", TAILS)


def validator(tail: str) -> Any:
    """Of the bodies that may be sent there."""
    whole = json.loads(document())
    asked = whole["paths"][f"/r/{{run}}/{{rollout}}/v1/{tail}"]["post"]["requestBody"]["content"]["application/json"]
    return jsonschema_rs.validator_for(asked["schema"] | {"components": whole["components"]})


def disagreement(tail: str, valid: Any, body: Any) -> str:
    """How the document and the reader differ over a body; "" where they do not."""
    try:
        data = json.dumps(body, allow_nan=False).encode()
        said = bool(valid.is_valid(body))
    except ValueError:
        return ""  # what JSON has no word for: there are tests of their own
    try:
        TAILS[tail][0](data)
    except Malformed as fault:
        if said and not BEYOND.search(str(fault)):
            return f"the document allows it, the reader does not: {fault.field}: {fault}"
        return ""
    return "" if said else "the reader takes it, the document forbids it"


def changed(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    other = deepcopy(body)
    at(other, path[:-1])[path[-1]] = value
    return other


@each
def test_the_whole_body_is_allowed(tail: str) -> None:
    assert validator(tail).is_valid(TAILS[tail][1])


@each
def test_a_hostile_value_at_every_place_is_allowed_where_it_is_read(tail: str) -> None:
    valid, body, found = validator(tail), TAILS[tail][1], list[str]()
    tried = 0
    for path in places(body):
        for value in HOSTILE:
            why = disagreement(tail, valid, changed(body, path, value))
            tried += 1
            if why:
                found.append(f"{path} = {value!r:.60}: {why}")
    assert tried > 1000
    assert not found, "\n".join(found)


@each
def test_a_field_that_is_left_out_is_required_where_it_is_missed(tail: str) -> None:
    valid, body = validator(tail), TAILS[tail][1]
    for path in places(body):
        without = deepcopy(body)
        del at(without, path[:-1])[path[-1]]
        assert not disagreement(tail, valid, without), path
