from __future__ import annotations

import asyncio
import socket

import pytest

from silva.errors import Exit, UsageError
from silva.models import Client, Endpoint, ModelError, Request, Retry
from silva.models.scripted import Answer, Fault, Rule, Script
from silva.tree import ToolCall, user

QUICK = Retry(attempts=4, first=0.001, longest=0.002)

HELLO = Request(messages=(user("hello"),), deadline=20.0)


async def failure(client: Client, request: Request = HELLO) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await client.complete(request)
    assert "\n" not in str(caught.value)
    assert caught.value.code is Exit.UNREACHABLE
    return caught.value


async def test_unreachable_says_where_and_what_to_do() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with Client(Endpoint(url=url, model="m", api_key_env=""), retry=QUICK) as client:
            error = await failure(client)
    assert error.kind == "unreachable" and error.transient
    assert url in str(error) and "is it running?" in str(error) and "after 4 attempts" in str(error)


@pytest.mark.parametrize(
    ("status", "kind", "attempts"),
    [
        (400, "refused", 1),
        (401, "auth", 1),
        (402, "quota", 1),
        (403, "auth", 1),
        (404, "missing", 1),
        (422, "refused", 1),
        (408, "refused", 4),
        (409, "refused", 4),
        (429, "rate_limit", 4),
        (500, "server", 4),
        (501, "server", 1),
        (503, "server", 4),
    ],
)
async def test_statuses_are_told_apart_and_the_provider_is_quoted(failing, status, kind, attempts) -> None:
    room = failing(kind="status", status=status, message="because of the moon")
    error = await failure(room.client)
    assert error.kind == kind
    assert error.transient == (attempts > 1)
    assert f"HTTP {status}: because of the moon" in str(error)
    assert room.server.requests == attempts


async def test_rate_limit_then_ok(failing) -> None:
    room = failing(kind="rate_limit", retry_after=0.01, times=2)
    reply = await room.client.complete(HELLO)
    assert (reply.message.text, reply.attempts) == ("fine", 3)


async def test_retry_after_beyond_the_deadline_gives_up_at_once(failing) -> None:
    room = failing(kind="rate_limit", retry_after=3600)
    error = await failure(room.client)
    assert (error.kind, error.retry_after, room.server.requests) == ("rate_limit", 3600, 1)


async def test_a_spent_quota_is_not_a_rate_limit(failing) -> None:
    room = failing(kind="status", status=429, message="You exceeded your current quota, check your billing")
    assert (await failure(room.client)).kind == "quota"
    assert room.server.requests == 1


async def test_hanging_ends_at_the_deadline(failing) -> None:
    room = failing(kind="hang")
    error = await failure(room.client, Request(messages=(user("hello"),), deadline=0.2))
    assert error.kind == "timeout" and "raise the deadline" in str(error)


async def test_a_hanging_try_is_given_up_for_another(failing) -> None:
    room = failing(kind="hang", times=1, retry=Retry(attempts=3, first=0.001, attempt_seconds=0.2))
    assert (await room.client.complete(HELLO)).attempts == 2


@pytest.mark.parametrize("kind", ["disconnect", "cut", "truncated"])
async def test_a_broken_reply_is_tried_again(failing, kind) -> None:
    room = failing(kind=kind, times=2)
    assert (await room.client.complete(HELLO)).attempts == 3


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ({"kind": "disconnect"}, "unreachable", "broke"),
        ({"kind": "cut"}, "unreachable", "broke"),
        ({"kind": "truncated"}, "garbage", "cut off"),
        ({"kind": "garbage"}, "garbage", "502 Bad Gateway"),
        ({"kind": "garbage", "body": ""}, "garbage", "empty"),
        ({"kind": "garbage", "body": '["no"]'}, "garbage", "wrong shape"),
        ({"kind": "garbage", "body": '{"choices":[{"message":{"content":5}}]}'}, "garbage", "wrong shape"),
        ({"kind": "garbage", "body": '{"choices":[{"message":{"tool_calls":[{"function":{}}]}}]}'}, "garbage", "name"),
        ({"kind": "empty"}, "garbage", "no choices"),
        ({"kind": "context_length"}, "context_length", "shorten the conversation"),
    ],
)
async def test_what_cannot_be_read_is_named(failing, fault, kind, words) -> None:
    error = await failure(failing(**fault).client)
    assert error.kind == kind
    assert words in str(error)


async def test_garbage_is_not_asked_for_twice(failing) -> None:
    room = failing(kind="garbage")
    await failure(room.client)
    assert room.server.requests == 1


async def test_an_error_in_a_reply_of_status_200_is_an_error(failing) -> None:
    room = failing(kind="garbage", body='{"error": {"message": "upstream is full", "code": 429}}', times=1)
    assert (await room.client.complete(HELLO)).attempts == 2


async def test_a_wrong_token_is_refused_and_never_shown(room) -> None:
    opened = room(Script(otherwise=Answer(text="x")), token="right")
    async with Client(Endpoint(url=opened.server.url, model="scripted"), api_key="sk-secret-123456") as client:
        error = await failure(client)
    assert error.kind == "auth" and "$OPENAI_API_KEY" in str(error)
    assert (await opened.client.complete(HELLO)).message.text == "x"


async def test_a_key_that_the_provider_repeats_is_blotted_out(room) -> None:
    script = Script(faults=(Fault(kind="status", status=400, message="bad key sk-secret-123456 \n given"),))
    opened = room(script)
    async with Client(Endpoint(url=opened.server.url, model="scripted"), api_key="sk-secret-123456") as client:
        error = await failure(client)
    assert "bad key *** given" in str(error)


async def test_an_unknown_model_name_is_refused_with_the_servers_words(room) -> None:
    opened = room(Script(otherwise=Answer(text="x")))
    async with Client(Endpoint(url=opened.server.url, model="gpt-99", api_key_env="")) as client:
        error = await failure(client)
    assert error.kind == "missing" and "'gpt-99'" in str(error) and "check the url and the model name" in str(error)


async def test_arguments_that_are_not_json_pass_through_as_data(room) -> None:
    broken = '{"city": "Par'
    answer = Rule(reply=Answer(tool_calls=(_call("get_weather", broken), _call("get_weather", "[1, 2]"))))
    opened = room(Script(rules=(answer,)))
    for reply in (await opened.client.complete(HELLO), await _streamed(opened.client)):
        assert [call.arguments for call in reply.message.tool_calls] == [broken, "[1, 2]"]
        assert reply.finish_reason == "tool_calls"
        with pytest.raises(ValueError, match="get_weather"):
            reply.message.tool_calls[0].parsed()


def _call(name: str, arguments: str):
    from silva.models.scripted.answer import Call

    return Call(name=name, arguments=arguments)


async def _streamed(client: Client):
    last = [delta async for delta in client.stream(HELLO)][-1].completion
    assert last is not None
    return last


@pytest.mark.parametrize("kind", ["disconnect", "status", "hang"])
async def test_a_stream_that_never_began_is_tried_again(failing, kind) -> None:
    room = failing(kind=kind, times=1, retry=Retry(attempts=3, first=0.001, attempt_seconds=2.0))
    assert (await _streamed(room.client)).attempts == 2


async def test_a_stream_that_broke_off_is_an_error_after_what_came() -> None:
    event = b'data: {"choices":[{"delta":{"content":"half a"}}]}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + event)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with Client(Endpoint(url=url, model="m", api_key_env=""), retry=QUICK) as client:
            text = ""
            with pytest.raises(ModelError) as caught:
                async for delta in client.stream(HELLO):
                    text += delta.text
    assert text == "half a"
    assert (caught.value.kind, caught.value.transient) == ("garbage", True)
    assert "broke off" in str(caught.value)


async def test_what_is_not_http_at_all_is_garbage() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with Client(Endpoint(url=url, model="m", api_key_env=""), retry=QUICK) as client:
            assert (await failure(client)).kind == "garbage"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://", "http://host:99999/v1", "http://[::1/v1"])
def test_a_url_that_cannot_be_used_is_refused_at_once(url) -> None:
    with pytest.raises(UsageError, match="write it like"):
        Client(Endpoint(url=url, model="m"))


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        Client(Endpoint(url="http://me:hunter2@host/v1", model="m"))
    assert "hunter2" not in str(caught.value)


def test_invalid_arguments_are_still_a_record() -> None:
    assert ToolCall(id="1", name="f", arguments="{").arguments == "{"
