from __future__ import annotations

import asyncio
import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.models import Endpoint, ModelError, Request, Sampling
from silva.models import body as written
from silva.models.body import Bodies
from silva.models.model import Completion
from silva.models.scripted import Answer, Latency, Rule, Script, When
from silva.models.scripted.answer import Call
from silva.models.scripted.fault import Fault
from silva.models.stream import Assembly
from silva.models.wire import WireError
from silva.tree import ImagePart, Message, ThinkingPart, Tool, assistant, system, tool_result, user
from silva.tree import call as tool_call

ENDPOINT = Endpoint(url="http://127.0.0.1/v1", model="m", input_price=2.0, output_price=10.0, cached_price=0.5)


async def test_a_chat_with_tools_goes_round(room) -> None:
    script = Script(
        rules=(
            Rule(
                when=When(last=r"weather in (\w+)", tools=("get_weather",), turn=0),
                reply=Answer(tool_calls=(Call(name="get_weather", arguments={"city": r"\1"}),), expand=True),
            ),
            Rule(when=When(role="tool", last="sunny"), reply=Answer(text="Take a hat.", thinking="sun, so hat")),
        )
    )
    client = room(script).client
    messages = (system("You help."), user("What is the weather in Paris?"))
    tools = (Tool(name="get_weather"),)
    first = await client.complete(Request(messages=messages, tools=tools))
    [call] = first.message.tool_calls
    assert (call.name, call.parsed(), first.finish_reason) == ("get_weather", {"city": "Paris"}, "tool_calls")
    messages += (first.message, tool_result(call.id, "sunny"))
    second = await client.complete(Request(messages=messages, tools=tools))
    assert second.message.text == "Take a hat."
    assert second.message.parts[0] == ThinkingPart(text="sun, so hat")
    assert second.usage.prompt_tokens > first.usage.prompt_tokens > 0


async def test_ids_and_logprobs_are_those_the_server_gave_and_extend_turn_by_turn(room) -> None:
    client = room(Script(otherwise=Answer(text="né 3")), token_ids=True).client
    messages = (user("hi"),)
    first = await client.complete(Request(messages=messages, sampling=Sampling(logprobs=True)))
    assert first.tokens is not None
    assert bytes(first.tokens.ids[:-1]) == "né 3".encode() and first.tokens.ids[-1] == 256
    assert first.tokens.sampled == len(first.tokens.ids) == len(first.tokens.logprobs)
    assert first.logprobs == first.tokens.logprobs and all(value <= 0 for value in first.logprobs)
    messages += (first.message, user("and?"))
    second = await client.complete(Request(messages=messages))
    whole = first.prompt_ids + first.tokens.ids
    assert second.prompt_ids[: len(whole)] == whole
    assert second.tokens is not None and second.tokens.logprobs == ()


async def test_without_asking_there_are_no_tokens(room) -> None:
    reply = await room(Script(otherwise=Answer(text="a"))).client.complete(Request(messages=(user("hi"),)))
    assert reply.tokens is None and reply.prompt_ids == () and reply.logprobs == ()


async def test_a_stream_says_what_a_whole_reply_says(room) -> None:
    answer = Answer(text="one two three four five", thinking="hm", tool_calls=(Call(name="f", arguments={"x": 1}),))
    slow = Fault(kind="slow_stream", pause=0.01, every=1)  # so that pieces come by themselves
    client = room(Script(otherwise=answer, faults=(slow,)), token_ids=True).client
    request = Request(messages=(user("count"),), sampling=Sampling(logprobs=True))
    whole = await client.complete(request)
    deltas = [delta async for delta in client.stream(request)]
    assert len(deltas) > 3
    assert "".join(delta.text for delta in deltas) == "one two three four five"
    assert "".join(delta.thinking for delta in deltas) == "hm"
    last = deltas[-1].completion
    assert last is not None and deltas[-1].tool_calls == whole.message.tool_calls
    assert whole.policy_version == "scripted"
    for field in ("message", "finish_reason", "tokens", "prompt_ids", "logprobs", "model", "policy_version"):
        assert getattr(last, field) == getattr(whole, field), field
    assert last.usage.completion_tokens == whole.usage.completion_tokens


async def test_a_stream_left_early_leaves_the_client_usable(room) -> None:
    client = room(Script(otherwise=Answer(text="one two three four five"))).client
    request = Request(messages=(user("count"),))
    stream = client.stream(request)
    async for delta in stream:
        assert delta.text
        break
    await stream.aclose()
    assert (await client.complete(request)).message.text.startswith("one")


async def test_many_calls_are_in_flight_at_once(room) -> None:
    opened = room(Script(latency=Latency(mean=0.3), otherwise=Answer(text="a")))
    request = Request(messages=(user("hi"),))
    replies = await asyncio.wait_for(asyncio.gather(*(opened.client.complete(request) for _ in range(200))), 20)
    assert len(replies) == 200 and opened.server.requests == 200  # one after the other would take a minute


async def test_a_session_reaches_the_server_whatever_its_name(room) -> None:
    script = Script(rules=(Rule(when=When(session="^lauf/äöü\n1$"), reply=Answer(text="known")),))
    reply = await room(script).client.complete(Request(messages=(user("hi"),), session="lauf/äöü\n1"))
    assert reply.message.text == "known"


def test_a_request_is_written_as_the_format_wants_it() -> None:
    picture = b"\x89PNG"
    body = msgspec.json.decode(
        Bodies(Endpoint(url="http://h", model="m", max_tokens_field="max_completion_tokens")).write(
            Request(
                messages=(
                    user("look", ImagePart(hash="abc", media_type="image/png")),
                    Message(role="assistant", parts=(ThinkingPart(text="t"),), tool_calls=(tool_call("f", {"a": 1}),)),
                    tool_result("f", "done"),
                    assistant("ok"),
                ),
                tools=(Tool(name="f", description="d"),),
                sampling=Sampling(temperature=0.0, max_tokens=5, stop=("x",), tool_choice="f", extra={"min_p": 0.1}),
                images={"abc": picture},
            )
        )
    )
    look, called, result, _ = body["messages"]
    assert look["content"][1]["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    assert called["content"] is None and called["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    assert "reasoning_content" not in called
    assert result["tool_call_id"] == "f"
    assert body["temperature"] == 0.0 and body["max_completion_tokens"] == 5 and body["stop"] == ["x"]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}} and body["min_p"] == 0.1
    assert not {"top_p", "seed", "logprobs", "stream", "return_token_ids", "max_tokens"} & body.keys()


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["on", "edit", "shorten", "same"]), st.text(max_size=9)),
        max_size=40,
    )
)
def test_a_body_is_the_same_whatever_was_written_before(steps: list[tuple[int, str, str]]) -> None:
    """Sessions that go on, repeat themselves, are cut short or rewritten: what is kept must never show."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(written, "MOST_KEPT", 400)  # so that it is let go several times on the way
        patch.setattr(written, "LONGEST_KEPT", 250)
        endpoint = Endpoint(url="http://h", model="m")
        kept = Bodies(endpoint)
        tools = (Tool(name="f", description="d", parameters={"type": "object", "properties": {"a": {}}}),)
        sessions: dict[int, list[Message]] = {}
        for number, what, text in steps:
            said = sessions.setdefault(number, [])
            if what == "on":
                said += [user(text), assistant(text, tool_call("f", {"a": text}))]
            elif what == "edit" and said:
                said[0] = user(text)
            elif what == "shorten":
                del said[1:]
            session = f"s{number}" if number else ""
            request = Request(messages=tuple(said), tools=tools if number % 2 else (), session=session)
            body = kept.write(request)
            assert body == Bodies(endpoint).write(request)
            assert len(msgspec.json.decode(body)["messages"]) == len(said)
        assert kept._kept == sum(len(one[1]) for one in kept._said.values()) <= 400


async def test_an_image_without_its_bytes_is_refused_before_it_is_sent(room) -> None:
    opened = room(Script(otherwise=Answer(text="x")))
    with pytest.raises(ModelError, match="image abcdef"):
        await opened.client.complete(Request(messages=(user("look", ImagePart(hash="abcdef")),)))
    assert opened.server.requests == 0


def read_whole(body: bytes, seconds: float = 0, attempts: int = 1, waited: float = 0) -> Completion:
    assembly = Assembly(ENDPOINT)
    assembly.whole(body)
    return assembly.finish(seconds, attempts, waited)


def test_cost_counts_cached_tokens_at_their_own_price() -> None:
    body = (
        b'{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"reasoning":"r"}}],'
        b'"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":400}}}'
    )
    reply = read_whole(body, 0.5, 2, 1.5)
    assert reply.message.text == "ab" and reply.message.thinking == "r"
    assert reply.usage.usd == pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)
    assert (reply.usage.cached_tokens, reply.usage.model_seconds, reply.seconds, reply.attempts) == (400, 1.5, 0.5, 2)
    assert reply.model == "m" and reply.finish_reason == "unknown"


def test_arguments_given_as_an_object_become_text() -> None:
    body = b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}]}'
    [call] = read_whole(body).message.tool_calls
    assert (call.id, call.arguments) == ("call_0", '{"a":1}')


def test_ids_and_logprobs_that_do_not_match_are_refused() -> None:
    body = b'{"choices":[{"message":{},"token_ids":[1,2],"logprobs":{"content":[{"logprob":-1}]}}]}'
    with pytest.raises(WireError, match="2 token ids but 1 logprobs"):
        read_whole(body)
