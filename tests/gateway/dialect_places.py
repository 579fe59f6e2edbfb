"""Places in a body, and what a dialect makes of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from dialect_whole_bodies import ANTHROPIC, CHAT, RESPONSES

from silva.models.gateway.dialects import Anthropic, Asked, Chat, Malformed, Responses, Stamp, content_key
from silva.models.gateway.dialects.dialect import Dialect
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
