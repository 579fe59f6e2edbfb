"""What a client or a provider says beyond what Silva reads: it arrives on the other side of the same API, streamed and
not, and what another API has no place for is told by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.anthropic.requests import Bodies as MessagesBodies
from silva.models.anthropic.stream import Assembly as MessagesAssembly
from silva.models.body import Bodies
from silva.models.endpoint import Endpoint
from silva.models.gateway.crossing import carried_on, crossed
from silva.models.gateway.dialects import Anthropic, Asked, Chat, Malformed, Responses, Stamp
from silva.models.gateway.dialects.content import content_key
from silva.models.model import Completion, Request
from silva.models.stream import DONE, Assembly
from silva.tree import Author, Message, Node, TextPart, decode, encode

ENDPOINT = Endpoint(url="http://127.0.0.1:1/v1", model="m", api_key_env="")
STAMP = Stamp(id="1", created=1, model="m")
NAME = "zz_more"
"""A member that no API has."""

PIXEL = "iVBORw0KGgo="
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
            ],
        },
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "", "parameters": {}, "strict": True}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
}
MESSAGES = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "r"}]}],
        },
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "strict": True}],
    "tool_choice": {"type": "tool", "name": "f"},
}
REPLY = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
}
MESSAGE = {
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
    ],
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **CALL}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]
EVENTS = [
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c", "name": "f"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all objects in a JSON value, those of schemas and arguments, which are carried whole, left out."""
    if isinstance(value, dict):
        yield path
        for name, inner in value.items():
            if name not in ("parameters", "input_schema", "input"):
                yield from objects(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from objects(inner, (*path, place))


def with_more(value: Any, path: tuple[Any, ...], more: Any) -> Any:
    found = at = copy.deepcopy(value)
    for step in path:
        at = at[step]
    at[NAME] = more
    return found


def found_in(value: Any) -> list[Any]:
    """What stands under the unknown name anywhere."""
    if isinstance(value, list):
        return [found for inner in value for found in found_in(inner)]
    if not isinstance(value, dict):
        return []
    here = [value[NAME]] if NAME in value else []
    return here + [found for name, inner in value.items() if name != NAME for found in found_in(inner)]


def request_of(asked: Asked, dialect: str) -> Request:
    images = {name: data for name, (_, data) in asked.images.items()}
    return Request(messages=asked.messages, tools=asked.tools, sampling=asked.sampling, images=images, dialect=dialect)


def events_of(stream: bytes) -> list[Any]:
    datas = [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(data) for data in datas if data != DONE]


@given(st.sampled_from(list(objects(CHAT))), values)
@settings(max_examples=120, deadline=None)
def test_what_a_chat_client_says_beyond_what_is_read_arrives(path: tuple[Any, ...], more: Any) -> None:
    asked = Chat().decode(json.dumps(with_more(CHAT, path, more)).encode())
    sent = json.loads(Bodies(ENDPOINT).write(request_of(asked, "chat")))
    assert found_in(sent) == [more]
    at = sent
    for step in path:
        at = at[step]
    assert at[NAME] == more


@given(st.sampled_from(list(objects(MESSAGES))), values)
@settings(max_examples=120, deadline=None)
def test_what_a_messages_client_says_beyond_what_is_read_arrives(path: tuple[Any, ...], more: Any) -> None:
    asked = Anthropic().decode(json.dumps(with_more(MESSAGES, path, more)).encode())
    sent = json.loads(MessagesBodies(ENDPOINT).write(request_of(asked, "anthropic")))
    assert found_in(sent) == [more]


@given(st.sampled_from([path for path in objects(REPLY) if path[-1:] != (0,) or "tool_calls" in path]), values)
@settings(max_examples=120, deadline=None)
def test_what_a_chat_provider_says_beyond_what_is_read_arrives(path: tuple[Any, ...], more: Any) -> None:
    assembly = Assembly(ENDPOINT)
    assembly.whole(json.dumps(with_more(REPLY, path, more)).encode())
    whole = assembly.finish(0.1, 1, 0.1)
    told = json.loads(Chat().encode(Asked(model="m", messages=()), whole, STAMP))
    assert found_in(told) == [more]


@given(st.sampled_from(list(objects(MESSAGE))), values)
@settings(max_examples=120, deadline=None)
def test_what_a_messages_provider_says_beyond_what_is_read_arrives(path: tuple[Any, ...], more: Any) -> None:
    assembly = MessagesAssembly(ENDPOINT)
    assembly.whole(json.dumps(with_more(MESSAGE, path, more)).encode())
    whole = assembly.finish(0.1, 1, 0.1)
    told = json.loads(Anthropic().encode(Asked(model="m", messages=()), whole, STAMP))
    assert found_in(told) == [more]


@given(st.sampled_from(list(objects(CHUNKS))), values)
@settings(max_examples=150, deadline=None)
def test_what_a_chat_stream_says_beyond_what_is_read_arrives(path: tuple[Any, ...], more: Any) -> None:
    assembly, writer = Assembly(ENDPOINT), Chat().events(Asked(model="m", messages=(), wants_usage=True), STAMP)
    stream = writer.begin()
    for chunk in with_more(CHUNKS, path, more):
        if (delta := assembly.absorb(json.dumps(chunk).encode())) is not None:
            stream += writer.delta(delta)
    whole = assembly.finish(0.1, 1, 0.1)
    assert whole.message.text == "hi"
    told = events_of(stream + writer.end(whole))
    assert found_in(told) == [more]
    assert "".join((e["choices"] or [{"delta": {}}])[0]["delta"].get("content") or "" for e in told) == "hi"


@given(st.sampled_from([path for path in objects(EVENTS) if len(path) > 1 or path in ((0,), (6,))]), values)
@settings(max_examples=150, deadline=None)
def test_what_a_messages_stream_says_beyond_what_is_read_arrives(path: tuple[Any, ...], more: Any) -> None:
    if path == (0,) or path[:2] == (2, "delta"):
        return  # an event's own members and those of a piece of text have no place in what is put together
    assembly, writer = MessagesAssembly(ENDPOINT), Anthropic().events(Asked(model="m", messages=()), STAMP)
    stream = writer.begin()
    for event in with_more(EVENTS, path, more):
        if (delta := assembly.absorb(json.dumps(event).encode())) is not None:
            stream += writer.delta(delta)
    whole = assembly.finish(0.1, 1, 0.1)
    assert whole.message.text == "hi"
    assert found_in(events_of(stream + writer.end(whole))) == [more]


def test_a_record_keeps_what_was_said_beside_it() -> None:
    asked = Chat().decode(json.dumps(with_more(CHAT, ("messages", 1, "content", 0), {"a": [1.0]})).encode())
    for message in asked.messages:
        node = Node(
            id="n", run_id="r", tree_id="t", parent_id=None, depth=0, author=Author.ENVIRONMENT, message=message
        )
        assert decode(encode(node)) == node


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("x" * (1 << 20), "larger than 1 MB"),
        (2**64, "out of range"),
        (json.loads("[" * 101 + "]" * 101), "too deep"),
    ],
)
def test_what_is_beyond_all_bounds_is_refused_with_its_place(more: Any, words: str) -> None:
    with pytest.raises(Malformed) as fault:
        Chat().decode(json.dumps(with_more(CHAT, ("messages", 0), more)).encode())
    assert words in str(fault.value) and fault.value.field.startswith(f"messages[0].{NAME}")


def test_what_another_api_has_no_place_for_is_told_by_name() -> None:
    body = with_more(with_more(CHAT, ("messages", 1), 1), ("tools", 0, "function"), 2)
    body = with_more(body, ("tool_choice", "function"), 3)
    body |= {"frequency_penalty": 0.5, "store": True, "min_p": 0.1}
    asked = Chat().decode(json.dumps(body).encode())
    request, lost = crossed(request_of(asked, "chat"), "anthropic")
    assert set(lost) == {
        "frequency_penalty", "store", f"messages[1].{NAME}", "messages[1].detail", f"tools.f.function.{NAME}",
        "tools.f.strict", f"tool_choice.function.{NAME}",
    }  # fmt: skip
    sent = json.loads(MessagesBodies(ENDPOINT).write(request))
    assert found_in(sent) == [] and sent["min_p"] == 0.1
    assert crossed(request_of(asked, "chat"), "chat") == (request_of(asked, "chat"), ())


def test_what_is_said_of_a_choice_of_tools_is_echoed_or_told_by_name() -> None:
    tools = [{"type": "function", "name": name, "parameters": {}} for name in "fg"]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f", NAME: 1}], "zz": 2}
    asked = Responses().decode(json.dumps({"model": "m", "input": "a", "tools": tools, "tool_choice": choice}).encode())
    reply = Completion(message=Message(role="assistant"))
    assert json.loads(Responses().encode(asked, reply, STAMP))["tool_choice"] == choice
    assert set(asked.left_out) == {"tool_choice.zz", f"tool_choice.{NAME}"} and [t.name for t in asked.tools] == ["f"]
    sent = json.loads(Bodies(ENDPOINT).write(request_of(asked, "responses")))
    assert sent["tool_choice"] == "auto" and found_in(sent) == []


def test_marks_of_a_cache_cross_from_the_chat_api() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a", **mark}]}]}
    request, lost = crossed(request_of(Chat().decode(json.dumps(body).encode()), "chat"), "anthropic")
    sent = json.loads(MessagesBodies(ENDPOINT).write(request))
    assert lost == () and sent["messages"][0]["content"] == [{"type": "text", "text": "a", **mark}]


def test_what_a_tool_demands_crosses_from_the_responses_api() -> None:
    tool = {"type": "function", "name": "f", "strict": True, "parameters": {"type": "object"}}
    asked = Responses().decode(json.dumps({"model": "m", "input": "a", "tools": [tool]}).encode())
    request, lost = crossed(request_of(asked, "responses"), "chat")
    assert lost == () and json.loads(Bodies(ENDPOINT).write(request))["tools"][0]["function"]["strict"] is True


def test_a_conversation_whose_marks_move_is_the_same_and_carries_those_of_now() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    first = Message(role="user", parts=(TextPart(text="a", extra=mark),))
    again = Message(role="user", parts=(TextPart(text="a"),))
    assert content_key(first) == content_key(again)
    reply = Message(role="assistant", parts=(TextPart(text="b ", extra={"said": 1}),))
    sent_back = Message(role="assistant", parts=(TextPart(text="b", extra=mark),))
    (found,) = carried_on((reply,), (sent_back,))
    assert found.parts == (TextPart(text="b ", extra={"said": 1} | mark),)
