"""The Anthropic client against a real server that speaks this API: the gateway's own dialect over ASGI."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import msgspec
import pytest
from anthropic_provider import CALL, FINE, HELLO, QUICK, SECRET, WEATHER, Provider

from silva.models import Endpoint, ModelError, Request, Retry, Sampling
from silva.models.anthropic import AnthropicClient
from silva.models.anthropic.marks import TOOL_ERROR, SignedDelta
from silva.models.anthropic.requests import MAX_TOKENS, Bodies
from silva.models.gateway.dialects import content_key
from silva.models.model import Completion, Delta
from silva.models.serving.server import ServerThread
from silva.tree import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)

Opened = tuple[Provider, AnthropicClient]


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Opened]]:
    async with AsyncExitStack() as stack:

        def open_one(
            completion: Completion = FINE,
            *,
            times: int = 99,
            fault: tuple[Any, ...] = (),
            retry: Retry = QUICK,
            key: str = SECRET,
            **fields: Any,
        ) -> Opened:
            provider = Provider(completion, times=times if fault else 0, fault=fault)
            server = ServerThread(provider).start()
            stack.callback(server.stop)
            endpoint = Endpoint(url=server.url, model="claude", **fields)
            client = AnthropicClient(endpoint, api_key=key, retry=retry, random=Random(0))
            stack.push_async_callback(client.close)
            return provider, client

        yield open_one


async def streamed(client: AnthropicClient, request: Request = HELLO) -> tuple[list[Delta], Completion]:
    found = [delta async for delta in client.stream(request)]
    assert found[-1].completion is not None
    return found, found[-1].completion


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_reply_is_read_whole(opened, streaming) -> None:
    _, client = opened()
    reply = (await streamed(client))[1] if streaming else await client.complete(HELLO)
    assert reply.message == FINE.message
    assert (reply.finish_reason, reply.model, reply.attempts) == ("tool_calls", "claude", 1)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (50, 7, 20)
    assert reply.seconds > 0 and reply.usage.model_seconds >= reply.seconds


async def test_pieces_add_up_to_the_message(opened) -> None:
    _, client = opened()
    found, whole = await streamed(client)
    assert "".join(delta.text for delta in found) == whole.message.text == "Guten Tag.\nI look."
    signed = [delta.signature for delta in found if isinstance(delta, SignedDelta)]
    assert signed == [part.signature for part in whole.message.parts if isinstance(part, ThinkingPart)]
    assert found[-1].tool_calls == FINE.message.tool_calls


async def test_a_conversation_arrives_as_it_was_meant(opened) -> None:
    provider, client = opened()
    picture = ImagePart(hash="0" * 64)
    said = (
        system("Be brief."),
        system("Be kind."),
        user("Look.", picture),
        user("Now."),
        Message(role="assistant", parts=FINE.message.parts, tool_calls=FINE.message.tool_calls),
        tool_result("toolu_1", "sunny"),
        Message(role="tool", parts=(TOOL_ERROR, TextPart(text="no such town")), tool_call_id="toolu_2"),
        user("And?"),
        assistant("It is sunny."),
        user("Thanks."),
    )
    request = Request(messages=said, tools=(WEATHER,), deadline=20.0, images={picture.hash: b"png"})
    await client.complete(request)
    body = provider.bodies[-1]
    assert [block["text"] for block in body["system"]] == ["Be brief.", "Be kind."]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    shown = [block["type"] for block in body["messages"][0]["content"]]
    assert shown == ["text", "image", "text"]
    assert body["messages"][0]["content"][1]["source"]["data"] == base64.b64encode(b"png").decode()
    results = body["messages"][2]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result", "text"]
    assert "is_error" not in results[0] and results[1]["is_error"] is True
    assert results[1]["content"] == [{"type": "text", "text": "no such town"}]
    assert body["tools"][0]["input_schema"]["type"] == "object"
    assert body["max_tokens"] == MAX_TOKENS and "tool_choice" not in body
    again = provider.asked[-1].messages
    assert again[2] == said[4]  # thinking, signatures, broken arguments and all
    assert [content_key(message) for message in again[3:5]] == [content_key(message) for message in said[5:7]]


def body_of(*messages: Message, sampling: Sampling | None = None, **fields: Any) -> dict[str, Any]:
    endpoint = Endpoint(url="http://h/v1", model="m", extra=fields)
    request = Request(messages=messages or (user("x"),), tools=(WEATHER,), sampling=sampling or Sampling())
    return json.loads(Bodies(endpoint).write(request))


@pytest.mark.parametrize(
    ("sampling", "fields", "expected"),
    [
        (Sampling(), {}, MAX_TOKENS),
        (Sampling(max_tokens=5), {"max_tokens": 7}, 5),
        (Sampling(), {"max_tokens": 7}, 7),
        (Sampling(extra={"max_completion_tokens": 8}), {}, 8),
        (Sampling(extra={"thinking": {"type": "enabled", "budget_tokens": 2000}}), {}, MAX_TOKENS + 2000),
        (Sampling(max_tokens=5, extra={"thinking": {"type": "adaptive"}}), {}, 5),
    ],
)
def test_max_tokens_is_always_said(sampling: Sampling, fields: dict[str, Any], expected: int) -> None:
    assert body_of(sampling=sampling, **fields)["max_tokens"] == expected


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(tool_choice="auto"), {"type": "auto"}),
        (Sampling(tool_choice="required"), {"type": "any"}),
        (Sampling(tool_choice="weather"), {"type": "tool", "name": "weather"}),
        (
            Sampling(tool_choice="none", extra={"parallel_tool_calls": False}),
            {"type": "none"},
        ),
        (
            Sampling(extra={"parallel_tool_calls": False}),
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_tool_choice_is_translated(sampling: Sampling, expected: dict[str, Any]) -> None:
    assert body_of(sampling=sampling)["tool_choice"] == expected


def test_what_the_chat_api_says_otherwise_is_translated_and_what_has_no_word_is_left_out() -> None:
    schema = {"type": "object"}
    extra = {
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        "frequency_penalty": 1,
        "min_p": 0.1,
    }
    body = body_of(sampling=Sampling(extra=extra, stop=("a",), seed=3, temperature=0.0, top_k=4))
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    assert (body["stop_sequences"], body["temperature"], body["top_k"], body["min_p"]) == (["a"], 0.0, 4, 0.1)
    assert not {"frequency_penalty", "seed", "reasoning_effort", "response_format"} & set(body)


def test_what_the_api_would_refuse_is_not_sent() -> None:
    thought = Message(role="assistant", parts=(ThinkingPart(text="unsigned"), TextPart(text=" ")))
    odd = ToolCall(id="functions.weather:0", name="weather", arguments="")
    body = body_of(user("a"), thought, user("b"), assistant("", odd), tool_result(odd.id, ""), system("Hurry."))
    made = body["messages"][2]["content"][0]["tool_use_id"]
    assert re.fullmatch("[a-zA-Z0-9_-]+", made)
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": made, "name": "weather", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": made}]},
        {"role": "system", "content": [{"type": "text", "text": "Hurry."}]},
    ]


def test_results_stand_before_words_said_meanwhile() -> None:
    body = body_of(user("a"), assistant("", CALL), user("hurry"), tool_result(CALL.id, "sunny"))
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result", "text"]


async def test_a_request_that_cannot_be_written_is_refused_in_one_line(opened) -> None:
    _, client = opened()
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    too_short = Request(messages=HELLO.messages, sampling=Sampling(max_tokens=100, extra=thinking))
    with pytest.raises(ModelError, match=r"max_tokens \(100\) must be more than the thinking budget") as caught:
        await client.complete(too_short)
    assert caught.value.kind == "refused"
    with pytest.raises(ModelError, match="its bytes are not in the request"):
        await client.complete(Request(messages=(user("x", ImagePart(hash="0" * 64)),)))


@pytest.mark.parametrize(
    ("finish", "attributes"),
    [("stop", {}), ("length", {}), ("content_filter", {}), ("stop_sequence", {"stop_sequence": "END"})],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_why_it_stopped_is_told(opened, streaming, finish, attributes) -> None:
    sent = Completion(message=assistant("x"), finish_reason=finish, attributes=attributes)
    _, client = opened(sent)
    request = msgspec.structs.replace(HELLO, sampling=Sampling(stop=("END", "STOP")))
    reply = (await streamed(client, request))[1] if streaming else await client.complete(request)
    assert (reply.finish_reason, reply.attributes) == (finish, attributes)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("status", "kind", "told", "expected", "attempts"),
    [
        (400, "malformed", "messages: wrong", "refused", 1),
        (400, "context_length", "210000 tokens > 200000 maximum", "context_length", 1),
        (403, "forbidden", "no", "auth", 1),
        (404, "not_found", "no model", "missing", 1),
        (429, "rate_limit", "slowly", "rate_limit", 4),
        (500, "upstream", "oh", "server", 4),
        (529, "overloaded", "Overloaded", "server", 4),
    ],
)
async def test_statuses_are_told_apart(opened, streaming, status, kind, told, expected, attempts) -> None:
    provider, client = opened(fault=("status", status, kind, told))
    with pytest.raises(ModelError) as caught:
        await (streamed(client) if streaming else client.complete(HELLO))
    assert caught.value.kind == expected and told in str(caught.value) and "\n" not in str(caught.value)
    assert len(provider.asked) == attempts


@pytest.mark.parametrize(
    "fault", [("status", 529, "overloaded", "x"), ("abort",), ("hang",), ("body", b'{"type":"mess')]
)
async def test_a_passing_fault_is_tried_again(opened, fault) -> None:
    _, client = opened(times=2, fault=fault, retry=Retry(attempts=4, first=0.001, attempt_seconds=1.0))
    reply = await client.complete(HELLO)
    assert (reply.message, reply.attempts) == (FINE.message, 3)


async def test_a_wrong_key_is_refused_and_never_shown(opened) -> None:
    _, client = opened(key="sk-ant-wrong-654321")
    with pytest.raises(ModelError) as caught:
        await client.complete(HELLO)
    assert caught.value.kind == "auth" and "wrong-654321" not in str(caught.value)
    assert "$ANTHROPIC_API_KEY" in str(caught.value)


async def test_the_key_of_another_provider_is_never_sent(opened, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    provider, client = opened(key="")
    with pytest.raises(ModelError):
        await client.complete(HELLO)
    assert "x-api-key" not in provider.headers and "sk-openai" not in str(provider.headers)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>Bad Gateway</html>", "not JSON"),
        (b'{"type":"message"}', "no content"),
        (b'{"content":5}', "wrong shape"),
        (b'{"content":[{"type":"tool_use","id":"x","input":{}}]}', "no name"),
        (b'{"content":[{"type":"text","text":"\xff"}]}', "not JSON"),
    ],
)
async def test_what_cannot_be_read_is_named(opened, data, words) -> None:
    _, client = opened(fault=("body", data))
    with pytest.raises(ModelError) as caught:
        await client.complete(HELLO)
    assert caught.value.kind == "garbage" and words in str(caught.value)
    assert "is this an Anthropic endpoint?" in str(caught.value)


async def test_an_error_before_the_first_piece_is_tried_again(opened) -> None:
    provider, client = opened(times=2, fault=("first", 529, "overloaded", "Overloaded"))
    _, whole = await streamed(client)
    assert (whole.message, whole.attempts, len(provider.asked)) == (FINE.message, 3, 3)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (("midway", 529, "overloaded", "Overloaded"), "server", "Overloaded"),
        (("midway", 429, "rate_limit", "slowly"), "rate_limit", "slowly"),
        (("cut",), "garbage", "broke off"),
    ],
)
async def test_a_stream_that_breaks_off_is_an_error_after_what_came(opened, fault, kind, words) -> None:
    provider, client = opened(fault=fault)
    text = ""
    with pytest.raises(ModelError, match=words) as caught:
        async for delta in client.stream(HELLO):
            text += delta.text
    assert text == FINE.message.text and caught.value.kind == kind and caught.value.transient
    assert len(provider.asked) == 1


async def test_many_calls_at_once_share_one_client(opened) -> None:
    provider, client = opened()
    replies = await asyncio.gather(*(client.complete(HELLO) for _ in range(40)))
    assert all(reply.message == FINE.message for reply in replies) and len(provider.asked) == 40
