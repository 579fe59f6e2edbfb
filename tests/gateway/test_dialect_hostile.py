"""Whatever a stranger sends is read or refused with its place; nothing else happens."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from dialect_places import DEEP, at, each, places, survives
from dialect_whole_bodies import ANTHROPIC

from silva.models.gateway.dialects import Anthropic, Malformed
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.gateway.dialects.reading import OURS_ELSEWHERE


def written(path: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


@each
def test_the_bodies_the_others_are_made_from_are_read(dialect: Dialect, body: dict[str, Any]) -> None:
    assert survives(dialect, json.dumps(body).encode()) is not None


TOOL = {"parameters", "input_schema"}
"""The schema of a tool's arguments: its outermost level is checked."""
OPEN = {"schema", "response_format", "metadata"}
"""What is inside may be anything."""
UNREAD = {"min_p", "cache_control", "strict"}
"""Passed on, or passed over, whatever it is."""


@each
def test_a_wrong_type_is_refused_with_its_place(dialect: Dialect, body: dict[str, Any]) -> None:
    tried = 0
    for path in places(body):
        if OPEN & set(path[:-1]) or UNREAD & set(path) or path[-2:] == ("input", "city"):
            continue
        if "properties" in path[:-1] and TOOL & set(path):
            continue
        if path[-1] == "type" and {"summary", "action"} & set(path):
            continue
        changed = deepcopy(body)
        old = at(body, path)
        at(changed, path[:-1])[path[-1]] = "wrong" if isinstance(old, int | float) else 0.5
        with pytest.raises(Malformed) as caught:
            dialect.decode(json.dumps(changed).encode())
        assert caught.value.field == written(path), path
        tried += 1
    assert tried > 30


@each
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": 7}, ".type"),
        ({"type": None}, ".type"),
        ({"type": "objct"}, ".type"),
        ({"type": "Object"}, ".type"),
        ({"type": {"type": "object"}}, ".type"),
        ({"type": []}, ".type"),
        ({"type": ["object", 7]}, ".type[1]"),
        ({"type": ["object", "nil"]}, ".type[1]"),
        ({"type": "object", "properties": None}, ".properties"),
        ({"type": "object", "properties": ["city"]}, ".properties"),
        ({"type": "object", "required": "city"}, ".required"),
        ({"type": "object", "required": True}, ".required"),
        ({"type": "object", "required": ["city", 1]}, ".required[1]"),
    ],
)
def test_a_tools_schema_that_is_none_is_refused_with_its_place(
    dialect: Dialect, body: dict[str, Any], schema: dict[str, Any], place: str
) -> None:
    changed = deepcopy(body)
    path = next(path for path in places(body) if path[-1] in TOOL)
    at(changed, path[:-1])[path[-1]] = schema
    with pytest.raises(Malformed) as caught:
        dialect.decode(json.dumps(changed).encode())
    assert caught.value.field == written(path) + place


@each
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object", "null"], "properties": {}, "required": []},
        {"properties": {"type": {"type": 7}, "required": True}, "x-own": [7]},
        {"$ref": "#/$defs/city", "$defs": {"city": {"type": "object"}}},
    ],
)
def test_a_tools_schema_may_say_whatever_else_it_likes(
    dialect: Dialect, body: dict[str, Any], schema: dict[str, Any]
) -> None:
    changed = deepcopy(body)
    path = next(path for path in places(body) if path[-1] in TOOL)
    at(changed, path[:-1])[path[-1]] = schema
    asked = survives(dialect, json.dumps(changed).encode())
    assert asked is not None and asked.tools[0].parameters == schema


def as_said_in(dialect: Dialect, data: bytes) -> bytes:
    """The body in a dialect's own words: `"said":<…>` is what the user says, `"most"` how long the reply may be."""
    if dialect.name == "responses":
        return (
            data.replace(b"said", b"input").replace(b"<", b"").replace(b">", b"").replace(b"most", b"max_output_tokens")
        )
    data = data.replace(b"said", b"messages").replace(b"most", b"max_tokens")
    return data.replace(b"<", b'[{"role":"user","content":').replace(b">", b"}]")


@each
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b'{"model":"m"}',
        b'{"model":"m","said":[],"most":1}',
        b'{"model":"m\\u0000","said":<"x">,"most":1}',
        b'{"model":"","said":<"x">,"most":1}',
        b'{"model":"m","said":<"\\ud800">,"most":1}',
        b'{"model":"m","said":<"\xed\xa0\x80">,"most":1}',
        b'{"model":"m","said":<"a\x00">,"most":1}',
        b'{"model":"m","said":<"x">,"most":1,"min_p":NaN}',
        b'{"model":"m","said":<"x">,"most":1,"min_p":1e999}',
        b'{"model":"m","said":<"x">,"most":1,"k":"\xff"}',
        b'{"model":"m","said":<"x">,"most":1,"k":' + b"9" * 30 + b"}",
        b'{"model":"m","said":<"x">,"most":1,"k":' + DEEP + b"}",
        b'{"model":"m","said":<"x">,"most":1,"k":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"model":"m","said":' + DEEP + b',"most":1}',
        b'{"model":"m","said":<"x">,"most":' + b"9" * 5000 + b"}",
        b'{"model":"m","said":<"x">,"most":0}',
    ],
)
def test_what_is_no_request_is_refused(dialect: Dialect, body: dict[str, Any], data: bytes) -> None:
    assert survives(dialect, as_said_in(dialect, b'{"model":"m","said":<"x">,"most":1}')) is not None
    assert survives(dialect, as_said_in(dialect, data)) is None


@each
def test_one_request_has_one_reply(dialect: Dialect, body: dict[str, Any]) -> None:
    asked = survives(dialect, json.dumps(body | {"n": 1}).encode())
    assert asked is not None and "n" not in asked.sampling.extra
    with pytest.raises(Malformed, match="ask several times") as caught:
        dialect.decode(json.dumps(body | {"n": 2}).encode())
    assert caught.value.field == "n"


def test_what_is_passed_over_inside_a_known_field_is_still_checked() -> None:
    body = json.dumps(ANTHROPIC).replace('"budget_tokens": 2', '"budget_tokens": 2, "other": "?"').encode()
    assert survives(Anthropic(), body) is not None
    assert survives(Anthropic(), body.replace(b'"?"', b'"\xff"')) is None


@each
def test_null_characters_are_kept_in_text_and_refused_in_names(dialect: Dialect, body: dict[str, Any]) -> None:
    text = json.dumps(body).replace('"hi"', '"h\\u0000i"')
    asked = survives(dialect, text.encode())
    assert asked is not None and any("h\0i" in message.text for message in asked.messages)
    for name in ("weather", "c1" if dialect.name != "anthropic" else "t1", "u"):
        hostile = json.dumps(body).replace(f'"{name}"', f'"{name}\\u0000"')
        assert survives(dialect, hostile.encode()) is None, name


OWN = {
    "chat": {"function_call", "functions", "logprobs", "max_completion_tokens", "max_tokens", "messages", "stop"},
    "responses": {"input", "instructions", "max_output_tokens", "prompt"},
    "anthropic": {"max_tokens", "messages", "stop_sequences", "system"},
}


@each
def test_what_the_gateway_says_to_a_backend_nobody_says_in_the_words_of_another_api(
    dialect: Dialect, body: dict[str, Any]
) -> None:
    foreign = OURS_ELSEWHERE - OWN[dialect.name] - {"n", "return_token_ids", "stream_options"}
    assert foreign and not foreign & body.keys()
    for name in foreign:
        with pytest.raises(Malformed, match="no such field") as refused:
            dialect.decode(json.dumps(body | {name: [7]}).encode())
        assert refused.value.field == name
        assert dialect.decode(json.dumps(body | {name: None}).encode()) == dialect.decode(json.dumps(body).encode())
    everything = dialect.decode(json.dumps(body).encode()).sampling.extra
    assert not OURS_ELSEWHERE & everything.keys()
