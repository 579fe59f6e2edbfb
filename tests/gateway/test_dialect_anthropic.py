"""What the Anthropic Messages API lets a client send, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from dialect_bodies import DATA, HELLO, PICTURE, anthropic, turns

from silva.models.anthropic.marks import TOOL_ERROR, redacted
from silva.models.gateway.dialects import Anthropic, Asked, Malformed, Stamp
from silva.models.model import Completion, Delta
from silva.tree import ImagePart, Message, OtherPart, TextPart, ThinkingPart, ToolCall, assistant, user

MARK = {"cache_control": {"type": "ephemeral"}}


def test_anthropic_blocks() -> None:
    asked = anthropic(
        system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "look"},
             {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.0}},
            ]},
            {"role": "user", "content": [
                {"type": "text", "text": "and?"},
                {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "broken"},
            ]},
        ],
    )  # fmt: skip
    assert asked.messages == (
        Message(role="system", parts=(TextPart(text="a", extra=MARK), TextPart(text="b"))),
        user("look", PICTURE),
        Message(
            role="assistant",
            parts=(ThinkingPart(text="hm", signature="s"), redacted("d"), TextPart(text="I look.")),
            tool_calls=(ToolCall(id="t", name="f", arguments='{"a": 1.0}'),),
        ),
        Message(role="tool", parts=(TOOL_ERROR, TextPart(text="broken")), tool_call_id="t"),
        user("and?"),
    )


def test_anthropic_neighbours_of_one_role_stay_apart() -> None:
    found = turns(
        {"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}
    )
    assert found == (user("a"), user("b"), assistant("c"))
    assert turns({"role": "user", "content": []}) == (Message(role="user"),)


def test_anthropic_results_may_be_empty_or_hold_pictures() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/jpg", "data": DATA}}
    content = [
        {"type": "tool_result", "tool_use_id": "t"},
        {"type": "tool_result", "tool_use_id": "u", "content": [picture]},
    ]
    jpeg = ImagePart(hash=PICTURE.hash, media_type="image/jpeg")
    assert turns({"role": "user", "content": content}) == (
        Message(role="tool", tool_call_id="t"),
        Message(role="tool", parts=(jpeg,), tool_call_id="u"),
    )


@pytest.mark.parametrize(
    ("choice", "expected"), [("auto", "auto"), ("any", "required"), ("none", "none"), ("tool", "f")]
)
def test_anthropic_tool_choice(choice: str, expected: str) -> None:
    tools = [
        {"name": "f", "input_schema": {"type": "object"}, "type": "custom", "cache_control": {"type": "ephemeral"}}
    ]
    asked = anthropic(tools=tools, tool_choice={"type": choice, "name": "f"})
    assert asked.sampling.tool_choice == expected and asked.sampling.extra == {}


def test_anthropic_fields_of_the_house_are_passed_on_as_others_are() -> None:
    asked = anthropic(
        thinking={"type": "enabled", "budget_tokens": 5, "display": "omitted"},
        service_tier="auto",
        context_management={"edits": []},
        betas=["x"],
        container=None,
        stop_sequences=["a"],
        top_k=5,
        min_p=0.1,
    )
    thinking = {"type": "enabled", "budget_tokens": 5, "display": "omitted"}
    house = {"service_tier": "auto", "context_management": {"edits": []}, "betas": ["x"], "container": None}
    assert asked.sampling.extra == {"thinking": thinking, "min_p": 0.1} | house
    assert (asked.sampling.stop, asked.sampling.top_k) == (("a",), 5)


USE = {"type": "tool_use", "id": "s", "name": "f"}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"max_tokens": None}, "max_tokens", "required"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type", "'web_search_20250305'"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema", "required"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers", "calls no MCP servers"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type", "not one of"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens", "required"),
        ({"system": [{"type": "image"}]}, "system[0].type", "'image' are not supported here"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content", "Expected"),
        (
            {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
            "messages[0].content[0].type",
            "'document'",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "sound", "id": "s"}]}]},
            "messages[0].content[0].type",
            "'sound'",
        ),
        (
            {"messages": [{"role": "assistant", "content": [USE | {"input": []}]}]},
            "messages[0].content[0].input",
            "Expected",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
            "messages[0].content[0].tool_use_id",
            "required",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}]},
            "messages[0].content[0].source.url",
            "fetches nothing",
        ),
    ],
)  # fmt: skip
def test_anthropic_refuses_with_the_place_and_the_reason(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Malformed, match=words) as caught:
        anthropic(**fields)
    assert caught.value.field == field


def test_what_the_providers_own_tools_gave_is_kept_as_it_was_given() -> None:
    found = [{"type": "web_search_result", "url": "u", "title": "t", "page_age": None}]
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}, "caller": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": found},
    ]
    said = turns(*HELLO, {"role": "assistant", "content": blocks})[1]
    assert [part.written for part in said.parts if isinstance(part, OtherPart)] == blocks


def test_counting_needs_no_bound() -> None:
    body = json.dumps({"model": "m", "messages": HELLO}).encode()
    assert Anthropic().decode_count(body).messages == (user("hello"),)
    with pytest.raises(Malformed):
        Anthropic().decode(body)


def test_a_thread_is_refused_with_the_code_upon_which_the_sdk_sends_the_conversation_whole() -> None:
    body = {"model": "m", "max_tokens": 9, "thread": {"type": "create"}, "messages": [{"role": "user", "content": "a"}]}
    with pytest.raises(Malformed) as refused:
        Anthropic().decode(json.dumps(body).encode())
    told = json.loads(Anthropic().error(400, "malformed", str(refused.value), refused.value.field))
    assert told["error"]["details"]["error_code"] == "thread_unsupported_request"


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_that_nobody_signed_carries_a_signature_and_comes_back_without_one(streamed: bool) -> None:
    """SDKs and agents on them drop thinking that is not signed, or are refused it."""
    said = Message(role="assistant", parts=(ThinkingPart(text="hm"), TextPart(text="Yes.")))
    asked, stamp = Asked(model="m", messages=(user("a"),), stream=streamed), Stamp(id="1", created=1, model="m")
    whole = Completion(message=said)
    if streamed:
        events = Anthropic().events(asked, stamp)
        pieces = [events.begin(), events.delta(Delta(thinking="h")), events.delta(Delta(thinking="m"))]
        written = b"".join([*pieces, events.delta(Delta(text="Yes.")), events.end(whole)]).decode()
        found = [msgspec.json.decode(line[5:]) for line in written.splitlines() if line.startswith("data:")]
        signed = [
            each["delta"]["signature"] for each in found if each.get("delta", {}).get("type") == "signature_delta"
        ]
        assert len(signed) == 1 and signed[0]
        content = [{"type": "thinking", "thinking": "hm", "signature": signed[0]}, {"type": "text", "text": "Yes."}]
    else:
        content = msgspec.json.decode(Anthropic().encode(asked, whole, stamp))["content"]
        assert content[0]["signature"]
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": content}]
    body = {"model": "m", "max_tokens": 9, "messages": turns}
    assert Anthropic().decode(msgspec.json.encode(body)).messages[1] == said
