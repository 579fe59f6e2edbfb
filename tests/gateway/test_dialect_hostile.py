"""Whatever a stranger sends is read or refused with its place; nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import pytest
from dialect_whole_bodies import ANTHROPIC, CHAT, RESPONSES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silva.models.gateway.dialects import Anthropic, Asked, Chat, Malformed, Responses, Stamp, content_key
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.gateway.dialects.reading import OURS_ELSEWHERE
from silva.models.model import Completion, Delta
from silva.tree import ToolCall, assistant

DIALECTS: list[tuple[Dialect, dict[str, Any]]] = [(Chat(), CHAT), (Responses(), RESPONSES), (Anthropic(), ANTHROPIC)]
each = pytest.mark.parametrize(("dialect", "body"), DIALECTS, ids=[dialect.name for dialect, _ in DIALECTS])

DEEP = b"[" * 100_000 + b"]" * 100_000
STAMP = Stamp(id="1", created=1, model="m")
REPLY = Completion(message=assistant("x", ToolCall(id="", name="patch", arguments="{")))


def survives(dialect: Dialect, data: bytes) -> Asked | None:
    """Decode; what is accepted can be stored, told apart and answered."""
    try:
        asked = dialect.decode(data)
    except Malformed as fault:
        assert str(fault)
        assert json.loads(dialect.error(400, "malformed", str(fault), fault.field))["error"]["message"]
        return None
    msgspec.msgpack.encode(asked)
    for message in asked.messages:
        content_key(message)
    dialect.encode(asked, REPLY, STAMP)
    events = dialect.events(asked, STAMP)
    events.begin(), events.delta(Delta(text="x")), events.end(REPLY)
    return asked


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if len(path) > 12:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*path, number))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


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


HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    10**30,
    -(10**25),
    2**63,
    1e308,
    0.1,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\0",
    "\ud800",
    "😀" * 50,
    "a" * 3000,
    "auto",
    "function",
    "data:image/png;base64,????",
    "data:,",
    "http://x/y.png",
    "9" * 6000,
    [],
    [[]],
    {},
    {"": {}},
    {"type": "text"},
    {"type": "function"},
    {"type": "message", "role": "assistant"},
    {"type": "tool_use", "id": "x", "name": "y", "input": []},
    {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "tool_result"}]},
    {"role": "assistant", "content": []},
    {"_raw": "x"},
]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def mutated(body: dict[str, Any], random: Random) -> bytes:
    """The body with one to four faults in it."""
    changed = deepcopy(body)
    for _ in range(random.randint(1, 3)):
        spots = list(places(changed))
        if not spots:
            break
        path = random.choice(spots)
        parent, last = at(changed, path[:-1]), path[-1]
        act = random.randrange(7)
        if act == 0:
            del parent[last]
        elif act == 1 and isinstance(parent, list):
            parent.append(deepcopy(random.choice(parent)))
        elif act == 2 and isinstance(parent, dict):
            key = random.choice(["type", "role", "content", "name", "x" * 600, "\0", "input", "text"])
            parent[key] = deepcopy(random.choice(HOSTILE))
        elif act == 3:
            parent[last] = deepcopy(at(body, random.choice(list(places(body)))))
        elif act == 4:
            parent[last] = nested(random.choice([3, 90, 110, 200]))
        else:
            parent[last] = deepcopy(random.choice(HOSTILE))
    data = json.dumps(changed, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    if random.random() < 0.3:
        cut = random.randrange(len(data))
        data = random.choice(
            [
                data[:cut],
                data[:cut] + random.choice([b"\xff", b"\0", b"\\", b'"', b"}", b"\xf0\x9f", b"1e999"]) + data[cut:],
                data[:cut] + bytes([random.randrange(256)]) + data[cut + 1 :],
                data.replace(b":", b": ", random.randrange(5)) + b" ",
            ]
        )
    return data


def fuzz(dialect: Dialect, body: dict[str, Any], seed: int, times: int) -> None:
    random = Random(seed)
    for _ in range(times):
        data = mutated(body, random)
        try:
            survives(dialect, data)
        except BaseException as fault:
            fault.add_note(f"body: {data[:4000]!r}")
            raise


def doubled(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> bytes:
    """The body with the member of that place written twice: as `value` first, then as it was."""
    changed = deepcopy(body)
    parent = at(changed, path[:-1])
    members = dict(parent)
    parent.clear()
    parent[f"{path[-1]}@@"] = value
    parent.update(members)
    return json.dumps(changed).replace('@@"', '"').encode()


@each
def test_a_member_that_is_there_twice_counts_once(dialect: Dialect, body: dict[str, Any]) -> None:
    as_it_was = dialect.decode(json.dumps(body).encode())
    tried = 0
    for path in places(body):
        if not isinstance(path[-1], str):
            continue
        same = survives(dialect, doubled(body, path, at(body, path)))
        assert same is not None, path
        assert same == as_it_was or "input" in path[:-1], path  # arguments of a call are kept as they were written
        for value in (None, 7, 10**30, "", [], {}, nested(200)):
            asked = survives(dialect, doubled(body, path, value))
            assert asked is None or asked.model == "m", path
        tried += 1
    assert tried > 30


@each
def test_some_mutants_are_read_and_some_refused(dialect: Dialect, body: dict[str, Any]) -> None:
    random = Random(7)
    verdicts = [survives(dialect, mutated(body, random)) is None for _ in range(300)]
    assert 30 < sum(verdicts) < 290


@each
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_bodies_are_read_or_refused(dialect: Dialect, body: dict[str, Any], seed: int) -> None:
    fuzz(dialect, body, seed, 30)


@pytest.mark.slow
@each
@given(seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_mutated_bodies_are_read_or_refused(dialect: Dialect, body: dict[str, Any], seed: int) -> None:
    fuzz(dialect, body, seed, 60)


WORDS = sorted({str(step) for body in (CHAT, RESPONSES, ANTHROPIC) for path in places(body) for step in path})
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=12,
)


@each
@given(data=st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_refused(dialect: Dialect, body: dict[str, Any], data: bytes) -> None:
    assert survives(dialect, data) is None, "no body of so few bytes asks for anything"


@each
@given(value=ANYTHING, messages=ANYTHING, tools=ANYTHING)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_json_is_read_or_refused(
    dialect: Dialect, body: dict[str, Any], value: Any, messages: Any, tools: Any
) -> None:
    survives(dialect, json.dumps(value).encode())
    said = {"input": messages} if dialect.name == "responses" else {"max_tokens": 3, "messages": messages}
    start = {"model": "m", "tools": tools, **said}
    survives(dialect, json.dumps(start | value if isinstance(value, dict) else start).encode())


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
