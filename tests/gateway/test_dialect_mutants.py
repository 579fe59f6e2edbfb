"""Bodies that were mutated, and what is no body at all: read or refused, never worse."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import Any

import pytest
from dialect_places import at, each, places, survives
from dialect_whole_bodies import ANTHROPIC, CHAT, RESPONSES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silva.models.gateway.dialects.dialect import Dialect

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
