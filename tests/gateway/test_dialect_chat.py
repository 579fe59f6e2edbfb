"""What the Chat Completions API lets a client send, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_bodies import HELLO, PICTURE, PIXEL, URL, chat, said

from silva.models.gateway.dialects import Malformed
from silva.tree import Message, TextPart, ThinkingPart, ToolCall, assistant, system, tool_result, user

F = {"type": "function", "function": {"name": "f"}}
G = {"type": "function", "function": {"name": "g"}}


def test_chat_roles() -> None:
    assert said(
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "d"},
        {"role": "developer", "content": "n", "name": "lead"},
        {"role": "user", "content": "u", "name": "Ada"},
        {"role": "assistant", "content": None},
    ) == (
        system("s"),
        Message(role="system", parts=(TextPart(text="d"),), name="developer"),
        Message(role="system", parts=(TextPart(text="n"),), name="lead"),
        Message(role="user", parts=(TextPart(text="u"),), name="Ada"),
        assistant(),
    )


def test_chat_content_is_text_or_parts() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "text", "text": ""},
    ]
    asked = chat(messages=[{"role": "user", "content": parts}])
    assert asked.messages == (user("a", PICTURE),)
    assert asked.images == {PICTURE.hash: ("image/png", PIXEL)}
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    part, whole = said(refused, {"role": "assistant", "content": None, "refusal": "no"})
    assert part == Message(role="assistant", parts=(TextPart(text="no", extra={"type": "refusal"}),))
    assert whole == Message(role="assistant", parts=(TextPart(text="no"),), extra={"refusal": None})


def test_chat_calls_pass_through_raw() -> None:
    raw = '{"a": 1,   "b": '
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": raw}}
    written = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]}
    assert said(written, {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]}) == (
        Message(
            role="assistant",
            parts=(ThinkingPart(text="hm"),),
            tool_calls=(ToolCall(id="c", name="f", arguments=raw),),
        ),
        tool_result("c", "r"),
    )


def test_chat_bounds_stops_and_fields_nobody_knows() -> None:
    asked = chat(
        max_tokens=5,
        max_completion_tokens=6,
        stop="a",
        seed=3,
        logprobs=True,
        top_logprobs=2,
        response_format={"type": "json_object"},
        min_p=0.1,
        chat_template_kwargs={"enable_thinking": False},
        unknown=None,
        metadata={"a": "b"},
        store=True,
        user="u",
        return_token_ids=True,
    )
    assert (asked.sampling.max_tokens, asked.sampling.stop, asked.sampling.seed) == (6, ("a",), 3)
    assert asked.sampling.logprobs and asked.wants_logprobs and asked.wants_ids and not asked.wants_usage
    assert asked.sampling.extra == {
        "top_logprobs": 2,
        "response_format": {"type": "json_object"},
        "min_p": 0.1,
        "metadata": {"a": "b"},
        "store": True,
        "user": "u",
        "chat_template_kwargs": {"enable_thinking": False},
        "unknown": None,
    }
    assert asked.user == "u" and asked.echo == {"metadata": {"a": "b"}, "store": True}
    assert chat(stop=["a", "b"]).sampling.stop == ("a", "b")
    assert chat(stop=None, max_tokens=None, n=1, temperature=None).sampling == chat().sampling


@pytest.mark.parametrize(
    ("choice", "expected", "left"),
    [
        ("auto", "auto", "fg"),
        ("none", "none", "fg"),
        ("required", "required", "fg"),
        (F, "f", "fg"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [G]}}, "required", "g"),
        (None, None, "fg"),
    ],
)
def test_chat_tool_choice(choice: Any, expected: str | None, left: str) -> None:
    asked = chat(tools=[F, G], tool_choice=choice)
    assert asked.sampling.tool_choice == expected
    assert "".join(tool.name for tool in asked.tools) == left


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"n": 2}, "n", "ask several times"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "not one of"),
        ({"messages": [*HELLO, {"role": "tool", "content": "x"}]}, "messages[1].tool_call_id", "required"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
            "messages[0].content[0].type",
            "'input_audio' are not supported",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
            "messages[0].content[0].type",
            "'file' are not supported",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]}]},
            "messages[0].content[0].image_url.url",
            "fetches nothing: send the picture as a data: URL",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {}}]}]},
            "messages[0].tool_calls[0].type",
            "'custom' are not supported",
        ),
        ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages[0].audio", "not supported"),
        ({"messages": [{**HELLO[0], "tool_calls": [{"id": "c"}]}]}, "messages[0].tool_calls", "only an assistant"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "'custom' are not supported"),
        ({"tools": [F, F]}, "tools[1].name", "there already"),
        ({"tools": [F], "tool_choice": G}, "tool_choice.function.name", "no tool named 'g'"),
        ({"tools": [F], "tool_choice": "always"}, "tool_choice", "not one of"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"k": 10**30}}}]},
         "tools[0].function.parameters.k", "out of range"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f" * 513}}]}]},
         "messages[0].tool_calls[0].function.name", "1 to 512"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", **F}], "function_call": {"name": ""}}]},
         "messages[0].function_call.name", "1 to 512"),
        ({"tools": [F], "functions": "f"}, "functions", "Expected"),
        ({"tools": [F], "tool_choice": "auto", "function_call": "always"}, "function_call", "not one of"),
        ({"modalities": ["text", "audio"]}, "modalities", "text"),
        ({"max_tokens": 0}, "max_tokens", ">= 1"),
        ({"top_p": 2}, "top_p", "<= 1"),
    ],
)  # fmt: skip
def test_chat_refuses_with_the_place_and_the_reason(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Malformed, match=words) as caught:
        chat(**fields)
    assert caught.value.field == field


def test_a_tool_that_is_offered_can_be_called_whatever_its_name() -> None:
    name = "caf\u00e9\u00a0\u200d7"  # a space that does not break, and a joiner, as in some languages' words
    tool = {"type": "function", "function": {"name": name}}
    call = {"role": "assistant", "tool_calls": [{"id": "c", **tool}]}
    asked = chat(tools=[tool], messages=[call, {"role": "tool", "tool_call_id": "c", "content": "x", "name": name}])
    assert asked.tools[0].name == asked.messages[0].tool_calls[0].name == asked.messages[1].name == name
