"""Exact models over real HTTP: what is sent begins with what was seen, and nothing a server says is taken on trust."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from exact_families import family
from exact_garbage import GARBAGE, GARBAGE_IN_PIECES
from exact_server import IdServer, Said, Spoil

from silva.errors import UsageError
from silva.models import Endpoint, ModelError, Request, Retry, Sampling
from silva.models.exact import (
    CONVERSATION_CHANGED,
    THINKING_DROPPED,
    TOOLS_CHANGED,
    Continuation,
    ExactModel,
    open_backend,
    open_exact,
)
from silva.tree import ImagePart, Message, TextPart, Tool, ToolCall, assistant, tool_result, user

WEATHER = Tool(name="get_weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}})
QUICK = Retry(attempts=3, first=0.001, longest=0.002)
KINDS = ("vllm", "sglang", "silva")
LOGPROBS = Sampling(logprobs=True)

Opened = Callable[..., Any]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens a server and an exact model of it: `await opened(kind, say, name="chatml")`."""
    async with AsyncExitStack() as stack:

        async def open_pair(
            kind: str, say: Said, name: str = "chatml", **server_options: Any
        ) -> tuple[IdServer, ExactModel]:
            server = await IdServer(say, **server_options).start()
            stack.push_async_callback(server.stop)
            endpoint = Endpoint(
                url=server.url, model="m", api_key_env="", input_price=1.0, output_price=2.0, cached_price=0.5
            )
            model = open_exact(family(name), kind, endpoint, retry=QUICK)
            stack.push_async_callback(model.close)
            return server, model

        yield open_pair


def saying(*texts: str, name: str = "chatml", ended: bool = True) -> Said:
    """Says one text after another, letter by letter: ids that no tokenizer would make of it."""
    renderer, left = family(name), list(texts)
    answers: dict[tuple[int, ...], list[int]] = {}

    def say(prompt: list[int]) -> list[int]:
        key = tuple(prompt)
        if key not in answers:
            text = left.pop(0)
            marks = [mark for mark in renderer.vocabulary.controls if mark in text]
            pieces = [text] if marks else list(text)
            ids = [number for piece in pieces for number in renderer.vocabulary.encode(piece, first=False)]
            answers[key] = ids + ([min(renderer.stop_ids)] if ended else [])
        return answers[key]

    return say


def sent(server: IdServer) -> list[tuple[int, ...]]:
    return [tuple(body.get("prompt") or body["input_ids"]) for body in server.asked]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_conversation_is_sent_as_it_was_seen(opened: Opened, kind: str) -> None:
    server, model = await opened(kind, saying("the weather", "is sunny", "today"))
    messages: tuple[Message, ...] = (user("Weather?"),)
    whole: tuple[int, ...] = ()
    for asked in ("Sure?", "Really?", ""):
        request = Request(messages=messages, sampling=LOGPROBS, session="s1")
        reply = await model.complete(request)
        assert reply.prompt_ids == sent(server)[-1] and reply.prompt_ids[: len(whole)] == whole
        assert reply.tokens is not None and reply.tokens.sampled == len(reply.tokens.ids) == len(reply.logprobs)
        assert (reply.finish_reason, reply.attributes) == ("stop", {})
        assert reply.policy_version == ("m" if kind == "vllm" else "v7")  # vLLM's fingerprint is of its build
        assert reply.usage.prompt_tokens == len(reply.prompt_ids)
        plain = len(reply.prompt_ids) - reply.usage.cached_tokens / 2
        assert reply.usage.usd == pytest.approx((plain + 2 * reply.tokens.sampled) / 1e6)
        whole = reply.prompt_ids + reply.tokens.ids
        messages = (*messages, reply.message, user(asked))
    assert [message.text for message in messages[1::2]] == ["the weather", "is sunny", "today"]
    again = family("chatml").render(messages[:-1], generation_prompt=False)
    assert whole != again[: len(whole)]  # tokenised anew they would be other ids


@pytest.mark.parametrize("pause", [0.005, 0.0])
@pytest.mark.parametrize(("kind", "cumulative"), [("vllm", True), ("sglang", True), ("sglang", False)])
async def test_a_stream_says_the_same_and_leaks_no_syntax(
    opened: Opened, kind: str, cumulative: bool, pause: float
) -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>'
    text = f"<think>\nhm é\n</think>\n\nI look.\n{call}"
    _, model = await opened(kind, saying(text, name="qwen3"), "qwen3", cumulative=cumulative, pause=pause)
    request = Request(messages=(user("Weather?"),), tools=(WEATHER,), sampling=LOGPROBS)
    whole = await model.complete(request)
    deltas = [delta async for delta in model.stream(request)]
    assert "".join(delta.text for delta in deltas) == "I look." == whole.message.text
    assert "".join(delta.thinking for delta in deltas) == "hm é"
    assert not pause or len([delta for delta in deltas if delta.text]) > 2
    last = deltas[-1]
    assert last.completion is not None and last.tool_calls == whole.message.tool_calls
    assert [made.arguments for made in last.tool_calls] == ['{"city":"Paris"}']
    for field in ("message", "finish_reason", "tokens", "prompt_ids", "logprobs", "policy_version"):
        assert getattr(last.completion, field) == getattr(whole, field), field
    assert whole.finish_reason == "tool_calls"


async def test_a_given_continuation_is_gone_on_from_whatever_the_client_sends_back(opened: Opened) -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>'
    _, model = await opened("vllm", saying(call, "sunny"))
    first = Request(messages=(user("Weather?"),), tools=(WEATHER,))
    reply = await model.complete(first)
    known = model.continuation(first, reply)
    assert known.count == 2
    made = ToolCall(id="other", name="get_weather", arguments='{"city": "Paris"}')
    client = (user("Weather? "), assistant("", made), tool_result("other", "sunny"))
    following = await model.complete(Request(messages=client, tools=(WEATHER,)), continuation=known)
    assert following.prompt_ids[: len(known.ids)] == known.ids and following.attributes == {}


@pytest.mark.parametrize(
    ("change", "reason"), [("tools", TOOLS_CHANGED), ("words", CONVERSATION_CHANGED), ("thinking", THINKING_DROPPED)]
)
async def test_why_a_prompt_starts_anew_is_named(opened: Opened, change: str, reason: str) -> None:
    _, model = await opened("vllm", saying("<think>\na\n</think>\n\nb", "d", name="qwen3"), "qwen3")
    reply = await model.complete(Request(messages=(user("x"),), session="s"))
    before = user("y") if change == "words" else user("x")
    tools = (WEATHER,) if change == "tools" else ()
    again = await model.complete(Request(messages=(before, reply.message, user("z")), tools=tools, session="s"))
    assert again.attributes == {"restart": reason}
    assert again.prompt_ids == model.renderer.render((before, reply.message, user("z")), tools)


async def test_the_bound_the_stops_and_the_ends_reach_the_server(opened: Opened) -> None:
    end = family("chatml").vocabulary.controls["<|im_end|>"]
    sampling = Sampling(max_tokens=4, stop=("Obs",), temperature=0.5, top_k=3, seed=7, extra={"min_p": 0.1})
    for kind in ("vllm", "sglang"):
        server, model = await opened(kind, saying("the weather", ended=False))
        reply = await model.complete(Request(messages=(user("x"),), sampling=sampling))
        [body] = server.asked
        told = body if kind == "vllm" else body["sampling_params"]
        assert (told["stop"], told["stop_token_ids"], told["temperature"], told["min_p"]) == (["Obs"], [end], 0.5, 0.1)
        assert told["max_tokens" if kind == "vllm" else "max_new_tokens"] == 4
        if kind == "vllm":
            assert (reply.finish_reason, reply.message.text) == ("length", "the ")


async def test_a_reply_ended_by_a_stop_text_is_gone_on_from_with_that_text_in_its_ids(opened: Opened) -> None:
    server, model = await opened("vllm", saying("Act now\nObs:", "sunny", ended=False))
    sampling = Sampling(stop=("Obs:",))
    reply = await model.complete(Request(messages=(user("x"),), sampling=sampling, session="s"))
    assert (reply.message.text, reply.finish_reason) == ("Act now\n", "stop") and reply.tokens is not None
    seen = reply.prompt_ids + reply.tokens.ids
    again = await model.complete(
        Request(messages=(user("x"), reply.message, user("rain")), sampling=sampling, session="s")
    )
    assert again.attributes == {} and sent(server)[-1] == again.prompt_ids
    assert again.prompt_ids[: len(seen)] == seen
    text = family("chatml").text(again.prompt_ids[len(seen) :])
    assert text == "<|im_end|>\n<|im_start|>user\nrain<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("kind", "spoil", "words", "streamed"),
    [*((*case, False) for case in GARBAGE), *((*case, True) for case in GARBAGE_IN_PIECES)],
)
async def test_what_does_not_agree_is_garbage_and_named(
    opened: Opened, kind: str, spoil: Spoil, words: str, streamed: bool
) -> None:
    _, model = await opened(kind, saying("a b"), spoil=spoil, cumulative=False)
    request = Request(messages=(user("x"),), sampling=LOGPROBS)
    with pytest.raises(ModelError) as caught:
        if streamed:
            [delta async for delta in model.stream(request)]
        else:
            await model.complete(request)
    assert caught.value.kind == "garbage" and "model m at http://127.0.0.1" in str(caught.value)
    assert words in str(caught.value)


async def test_a_busy_server_is_asked_again_and_a_broken_stream_is_not_patched(opened: Opened) -> None:
    server, model = await opened("vllm", saying("a b"))
    server.failing = 2
    assert (await model.complete(Request(messages=(user("x"),)))).attempts == 3
    server.failing = 2
    deltas = [delta async for delta in model.stream(Request(messages=(user("x"),)))]
    assert deltas[-1].completion is not None and deltas[-1].completion.attempts == 3
    server.failing = 9
    with pytest.raises(ModelError, match=r"HTTP 503: busy.*after 3 attempts") as busy:
        await model.complete(Request(messages=(user("x"),)))
    assert busy.value.kind == "server"
    seen: list[int] = []

    def lost(body: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(1)
        return body if len(seen) < 3 else None

    server, model = await opened("vllm", saying("a b c"), spoil=lost)
    with pytest.raises(ModelError) as broken:
        [delta async for delta in model.stream(Request(messages=(user("x"),)))]
    assert broken.value.kind in ("unreachable", "garbage") and len(server.asked) == 1


async def test_a_deadline_and_a_closed_port_are_model_errors(opened: Opened) -> None:
    server, model = await opened("sglang", saying("a"))
    await server.stop()
    with pytest.raises(ModelError, match="cannot connect") as caught:
        await model.complete(Request(messages=(user("x"),)))
    assert caught.value.kind == "unreachable"
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    model = open_exact(family("chatml"), "vllm", Endpoint(url=f"http://127.0.0.1:{port}", model="m", api_key_env=""))
    with pytest.raises(ModelError, match=r"no reply within 0\.05 s") as late:
        await model.complete(Request(messages=(user("x"),), deadline=0.05))
    assert late.value.kind == "timeout"
    await model.close()
    silent.close()


PLACEHOLDER = family("chatml").vocabulary.controls["<|image_pad|>"]
PICTURE = ImagePart(hash="ab" * 32)


def showing(*pictures: ImagePart) -> Request:
    parts = (TextPart(text="Look: "), *pictures, TextPart(text="What is it?"))
    return Request(messages=(Message(role="user", parts=parts),), images={"ab" * 32: b"png"}, sampling=LOGPROBS)


@pytest.mark.parametrize("becomes", [[PLACEHOLDER] * 64, [5, 6, *[PLACEHOLDER] * 9, 7], [900_000] * 12])
@pytest.mark.parametrize("pictures", [1, 3])
@pytest.mark.parametrize("streamed", [False, True])
async def test_images_travel_beside_the_ids_and_may_become_many_there(
    opened: Opened, becomes: list[int], pictures: int, streamed: bool
) -> None:
    server, model = await opened("sglang", saying("a tree"), pictures={PLACEHOLDER: becomes})
    request = showing(*[PICTURE] * pictures)
    reply = await model.complete(request)
    if streamed:
        reply = [delta async for delta in model.stream(request)][-1].completion
        assert reply is not None
    assert reply.message.text == "a tree" and reply.prompt_ids == sent(server)[-1]
    assert reply.prompt_ids.count(PLACEHOLDER) == pictures
    assert server.asked[0]["image_data"] == ["data:image/png;base64,cG5n"] * pictures


@pytest.mark.parametrize("change", [lambda ids: ids[::-1], lambda ids: ids[1:], lambda ids: [7] * len(ids)])
async def test_beside_its_images_a_prompt_must_be_the_one_that_was_sent(opened: Opened, change: Any) -> None:
    def spoil(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "prompt_token_ids": change(body["prompt_token_ids"])}

    _, model = await opened("sglang", saying("a tree"), pictures={PLACEHOLDER: [PLACEHOLDER] * 9}, spoil=spoil)
    with pytest.raises(ModelError, match="another prompt") as caught:
        await model.complete(showing(PICTURE, PICTURE))
    assert caught.value.kind == "garbage"


async def test_images_are_refused_where_a_server_takes_none(opened: Opened) -> None:
    picture = Message(role="user", parts=(TextPart(text="Look: "), PICTURE))
    request = Request(messages=(picture,), images={"ab" * 32: b"png"})
    _, model = await opened("vllm", saying("a tree"))
    with pytest.raises(ModelError, match="completions take ids but no images; use an sglang backend"):
        await model.complete(request)
    with pytest.raises(ModelError, match="its bytes are not in the request"):
        await model.complete(Request(messages=(picture,)))


async def test_a_forced_tool_is_refused_and_none_reads_no_calls(opened: Opened) -> None:
    call = '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'
    _, model = await opened("vllm", saying(call))
    base = Request(messages=(user("x"),), tools=(WEATHER,))
    with pytest.raises(ModelError, match="tool_choice 'required' cannot be enforced") as caught:
        await model.complete(
            Request(messages=base.messages, tools=base.tools, sampling=Sampling(tool_choice="required"))
        )
    assert caught.value.kind == "refused"
    none = msgspec.structs.replace(base, sampling=Sampling(tool_choice="none"))
    assert (await model.complete(none)).message.text == call


async def test_a_template_that_refuses_is_a_refusal_of_the_model(opened: Opened) -> None:
    _, model = await opened("vllm", saying("a", name="gemma"), "gemma")
    with pytest.raises(ModelError, match="Roles must take turns") as caught:
        await model.complete(Request(messages=(user("x"), user("y"))))
    assert caught.value.kind == "refused"


def test_an_unknown_kind_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'tgi' is not known; those of token ids are vllm, sglang, silva"):
        open_backend("tgi", Endpoint(url="http://127.0.0.1:1", model="m"))


def test_a_continuation_knows_how_many_messages_it_covers() -> None:
    assert Continuation(ids=(1,), messages=(user("a"), assistant("b"))).count == 2


@pytest.mark.slow
async def test_the_bundled_model_is_sent_what_it_saw() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from silva.models.local.server import start_local

    child = await asyncio.to_thread(start_local, 1)
    try:
        model = open_exact(
            "local",
            "silva",
            Endpoint(url=child.url, model="smollm2-135m-instruct", api_key_env=""),
            api_key=child.token,
        )
        messages: tuple[Message, ...] = (user("Name a tree."),)
        whole: tuple[int, ...] = ()
        for turn in range(3):
            sampling = Sampling(logprobs=True, max_tokens=12, temperature=1.0, seed=turn)
            reply = await model.complete(Request(messages=messages, sampling=sampling, session="s", deadline=120))
            assert reply.tokens is not None and reply.tokens.logprobs
            assert reply.attributes == {} and reply.prompt_ids[: len(whole)] == whole and reply.policy_version
            whole = reply.prompt_ids + reply.tokens.ids
            messages = (*messages, reply.message, user("Another <|im_end|> one?"))
        streamed = [d async for d in model.stream(Request(messages=messages, sampling=sampling, session="s"))]
        assert streamed[-1].completion is not None
        assert streamed[-1].completion.prompt_ids[: len(whole)] == whole
        assert "".join(delta.text for delta in streamed) == streamed[-1].completion.message.text
        await model.close()
    finally:
        await child.stop()
