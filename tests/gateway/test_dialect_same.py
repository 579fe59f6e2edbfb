"""One conversation decodes to the same messages in every dialect, and a turn is known again when it comes back."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.anthropic.marks import TOOL_ERROR, arguments_of, input_of
from silva.models.gateway.dialects import Anthropic, Chat, Responses, content_key
from silva.tree import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    Tool,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NAME = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(NAME, VALUES, max_size=3)
PICTURES = st.binary(min_size=1, max_size=12)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Message], dict[str, bytes]]:
    """What all three APIs can say: a system message, turns of a user and an assistant, results of all calls."""
    images: dict[str, bytes] = {}
    said: list[Message] = [system(draw(TEXT))] if draw(st.booleans()) else []

    def shown() -> tuple[TextPart | ImagePart, ...]:
        parts: list[TextPart | ImagePart] = []
        for _ in range(draw(st.integers(1, 3))):
            if draw(st.integers(0, 3)):
                parts.append(TextPart(text=draw(TEXT)))
                continue
            data = draw(PICTURES)
            found = ImagePart(hash=hashlib.sha256(data).hexdigest(), media_type="image/webp")
            images[found.hash] = data
            parts.append(found)
        return tuple(parts)

    ids = iter(range(100))
    for _ in range(draw(st.integers(1, 3))):
        said.append(Message(role="user", parts=shown()))
        calls = tuple(
            ToolCall(id=f"call_{next(ids)}", name=draw(NAME), arguments=compact(draw(OBJECTS)))
            for _ in range(draw(st.integers(0, 2)))
        )
        parts: list[TextPart | ThinkingPart] = []
        if draw(st.booleans()):
            parts.append(ThinkingPart(text=draw(TEXT)))
        if not calls or draw(st.booleans()):
            parts.append(TextPart(text=draw(TEXT)))
        said.append(Message(role="assistant", parts=tuple(parts), tool_calls=calls))
        for call in calls:
            said.append(Message(role="tool", parts=shown()[:1], tool_call_id=call.id))
    said.append(user(draw(TEXT)))
    return said, images


def url(part: ImagePart, images: dict[str, bytes]) -> str:
    return f"data:{part.media_type};base64,{base64.b64encode(images[part.hash]).decode()}"


def as_chat(said: list[Message], images: dict[str, bytes]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for message in said:
        row: dict[str, Any] = {"role": message.role}
        words = [part for part in message.parts if not isinstance(part, ThinkingPart)]
        if len(words) == 1 and isinstance(words[0], TextPart):
            row["content"] = words[0].text
        else:
            row["content"] = [
                {"type": "text", "text": part.text}
                if isinstance(part, TextPart)
                else {"type": "image_url", "image_url": {"url": url(part, images), "detail": "low"}}
                for part in words
            ] or None
        if message.thinking:
            row["reasoning_content"] = message.thinking
        if message.tool_calls:
            row["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in message.tool_calls
            ]
        if message.tool_call_id:
            row["tool_call_id"] = message.tool_call_id
        rows.append(row)
    return {"model": "m", "messages": rows}


def as_responses(said: list[Message], images: dict[str, bytes]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    body: dict[str, Any] = {"model": "m", "input": items}

    def shown(message: Message) -> list[dict[str, Any]]:
        return [
            {"type": "input_text", "text": part.text}
            if isinstance(part, TextPart)
            else {"type": "input_image", "image_url": url(part, images), "detail": "auto"}
            for part in message.parts
            if not isinstance(part, ThinkingPart)
        ]

    for message in said:
        if message.role == "system":
            body["instructions"] = message.text
        elif message.role == "user":
            items.append({"role": "user", "content": shown(message)})
        elif message.role == "tool":
            items.append({"type": "function_call_output", "call_id": message.tool_call_id, "output": shown(message)})
        else:
            if message.thinking:
                content = [{"type": "reasoning_text", "text": message.thinking}]
                items.append({"type": "reasoning", "id": "rs_a_0", "summary": [], "content": content})
            if message.text:
                content = [{"type": "output_text", "text": message.text, "annotations": []}]
                items.append({"type": "message", "id": "msg_a_1", "role": "assistant", "content": content})
            items += [
                {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
                for c in message.tool_calls
            ]
    return body


def as_anthropic(said: list[Message], images: dict[str, bytes]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    body: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": turns}

    def shown(message: Message) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                blocks.append({"type": "text", "text": part.text})
            elif isinstance(part, ThinkingPart):
                blocks.append({"type": "thinking", "thinking": part.text, "signature": ""})
            else:
                data = base64.b64encode(images[part.hash]).decode()
                blocks.append(
                    {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}
                )
        return blocks

    for message in said:
        if message.role == "system":
            body["system"] = message.text
            continue
        if message.role == "assistant":
            uses = [
                {"type": "tool_use", "id": c.id, "name": c.name, "input": json.loads(c.arguments)}
                for c in message.tool_calls
            ]
            turns.append({"role": "assistant", "content": shown(message) + uses})
            continue
        blocks = shown(message)
        if message.role == "tool":
            blocks = [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": blocks}]
        if turns and turns[-1]["role"] == "user":
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": "user", "content": blocks})
    return body


def undetailed(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Without how closely a picture is to be looked at, which one of the APIs cannot say."""
    replace = msgspec.structs.replace
    return tuple(
        replace(
            message,
            parts=tuple(replace(p, detail=None) if isinstance(p, ImagePart) else p for p in message.parts),
        )
        for message in messages
    )


@given(conversations())
@settings(max_examples=150, deadline=None)
def test_one_conversation_is_the_same_in_every_dialect(conversation: tuple[list[Message], dict[str, bytes]]) -> None:
    said, images = conversation
    pictures = {name: ("image/webp", data) for name, data in images.items()}
    for dialect, body in ((Chat(), as_chat), (Responses(), as_responses), (Anthropic(), as_anthropic)):
        asked = dialect.decode(compact(body(said, images)).encode())
        assert undetailed(asked.messages) == tuple(said), dialect.name
        assert asked.images == {name: pictures[name] for name in asked.images}
        shown = {part.hash for message in said for part in message.parts if isinstance(part, ImagePart)}
        assert set(asked.images) == shown


def test_tools_choice_and_sampling_are_the_same_in_every_dialect() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    shared = {"model": "m", "temperature": 0.5, "top_p": 0.9, "stream": True}
    chat = Chat().decode(
        json.dumps(
            shared
            | {
                "messages": [{"role": "user", "content": "x"}],
                "max_tokens": 9,
                "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}],
                "tool_choice": {"type": "function", "function": {"name": "f"}},
                "parallel_tool_calls": False,
                "reasoning_effort": "low",
                "user": "u",
                "stream_options": {"include_usage": True},
            }
        ).encode()
    )
    responses = Responses().decode(
        json.dumps(
            shared
            | {
                "input": "x",
                "max_output_tokens": 9,
                "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema}],
                "tool_choice": {"type": "function", "name": "f"},
                "parallel_tool_calls": False,
                "reasoning": {"effort": "low"},
                "user": "u",
            }
        ).encode()
    )
    anthropic = Anthropic().decode(
        json.dumps(
            shared
            | {
                "messages": [{"role": "user", "content": "x"}],
                "max_tokens": 9,
                "tools": [{"name": "f", "description": "d", "input_schema": schema}],
                "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
                "output_config": {"effort": "low"},
                "metadata": {"user_id": "u"},
            }
        ).encode()
    )
    replace = msgspec.structs.replace
    for asked in (responses, anthropic):
        for field in ("model", "messages", "tools", "stream", "user", "wants_usage"):
            assert getattr(asked, field) == getattr(chat, field), field
        assert replace(asked.sampling, extra={}) == replace(chat.sampling, extra={})
    assert chat.tools == (Tool(name="f", description="d", parameters=schema),)
    shared = {"parallel_tool_calls": False, "reasoning_effort": "low"}
    assert chat.sampling.extra == responses.sampling.extra == shared | {"user": "u"}
    own = {"metadata": {"user_id": "u"}, "output_config": {"effort": "low"}}
    assert anthropic.sampling.extra == shared | own


def calling(arguments: str, name: str = "f", call_id: str = "c") -> Message:
    return assistant("", ToolCall(id=call_id, name=name, arguments=arguments))


@given(OBJECTS)
@settings(max_examples=100, deadline=None)
def test_rewritten_arguments_are_the_same_turn(value: dict[str, Any]) -> None:
    turned = dict(reversed(list(value.items())))
    keys = {
        content_key(calling(written))
        for written in (
            compact(value),
            json.dumps(turned, indent=2),
            " " + json.dumps(turned, ensure_ascii=True) + "\n",
        )
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1.0}', '{"a":1}'),
        ('{"a": 1e3}', '{"a":1000}'),
        ('{"a": 12345678901234567890}', '{"a":12345678901234567000}'),
        ("", "{}"),
        ('{"a": ', '{"_raw": "{\\"a\\": "}'),
        ("*** Begin", '{"input": "*** Begin"}'),
        ('{"cmd": 1}', '{"input": "{\\"cmd\\": 1}"}'),
    ],
)
def test_what_clients_do_to_arguments_is_looked_past(one: str, other: str) -> None:
    assert content_key(calling(one)) == content_key(calling(other))
    assert content_key(calling(one, call_id="d")) == content_key(calling(other))


def test_ends_names_and_thinking_do_not_count() -> None:
    plain = assistant("It is sunny.")
    assert content_key(plain) == content_key(assistant("\n It is sunny.\n\n"))
    thought = Message(role="assistant", parts=(ThinkingPart(text="hm", signature="s"), *plain.parts), name="bot")
    assert content_key(plain) == content_key(thought)
    halves = Message(role="assistant", parts=(TextPart(text="a"), TextPart(text="b")))
    assert content_key(halves) == content_key(assistant("a\nb"))


def test_what_says_something_else_has_another_key() -> None:
    picture = ImagePart(hash="0" * 64)
    different = [
        user("a"),
        assistant("a"),
        system("a"),
        user("b"),
        user("a", picture),
        user("a", ImagePart(hash="1" * 64)),
        tool_result("c", "a"),
        tool_result("d", "a"),
        Message(role="tool", parts=(TOOL_ERROR, TextPart(text="a")), tool_call_id="c"),
        calling("{}"),
        calling("{}", name="g"),
        calling('{"a": 1}'),
        calling('{"a": "1"}'),
        calling('{"a": true}'),
        calling("not json"),
        Message(role="assistant", tool_calls=(*calling("{}").tool_calls, *calling("{}").tool_calls)),
        assistant("f{}"),
    ]
    assert len({content_key(message) for message in different}) == len(different)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | OBJECTS.map(compact))
@settings(max_examples=200, deadline=None)
def test_arguments_survive_the_anthropic_api(arguments: str) -> None:
    written = bytes(input_of(arguments))
    assert isinstance(json.loads(written), dict)
    back = arguments_of(written.decode())
    assert back == arguments or not arguments.strip()
    again = arguments_of(compact(json.loads(written)))
    assert content_key(calling(again)) == content_key(calling(arguments))
