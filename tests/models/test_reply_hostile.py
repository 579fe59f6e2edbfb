"""Whatever a server answers is read or is a `ModelError`; nothing else comes out, and nothing is read without bound."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models import Client, Completion, Endpoint, ModelError, Request, Sampling
from silva.models.anthropic import AnthropicClient
from silva.models.exact import open_exact, open_renderer
from silva.models.retry import NO_RETRY
from silva.models.sizes import MOST_EVENT, MOST_REPLY
from silva.tree import user

KINDS = ("chat", "anthropic", "vllm", "sglang", "silva")
RENDERER = open_renderer("scripted")
ASKED = Request(messages=(user("hi"),), sampling=Sampling(logprobs=True), deadline=20.0)
PROMPT = list(RENDERER.render(ASKED.messages))
IDS = [104, 105, 256]
DEEP = b"[" * 100_000

USAGE = {"prompt_tokens": len(PROMPT), "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SAID = {"content": "hi", "reasoning_content": "hm", "tool_calls": [CALL]}
LOGPROBS = {"content": [{"token": "h", "logprob": -0.1}] * 3}
HEAD = {"model": "m", "policy_version": "v", "prompt_token_ids": PROMPT, "usage": USAGE}
BLOCKS = [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "c", "name": "f", "input": {"a": [1]}}]
BILLED = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1}
META = {"finish_reason": {"type": "stop"}, "prompt_tokens": len(PROMPT), "completion_tokens": 3, "cached_tokens": 1}
META |= {"weight_version": "v", "output_token_logprobs": [[-0.1, number, None] for number in IDS]}
BY_IDS = {"token_ids": IDS, "prompt_token_ids": PROMPT, "logprobs": {"token_logprobs": [-0.1] * 3}}

WHOLE: dict[str, dict[str, Any]] = {
    "chat": {
        "choices": [{"message": SAID, "finish_reason": "stop", "logprobs": LOGPROBS, "token_ids": IDS}],
        **HEAD,
    },
    "anthropic": {"content": BLOCKS, "stop_reason": "tool_use", "stop_sequence": None, "usage": BILLED, "model": "m"},
    "vllm": {"choices": [{**BY_IDS, "finish_reason": "stop"}], **HEAD, "system_fingerprint": "v"},
    "sglang": {"output_ids": IDS, "prompt_token_ids": PROMPT, "meta_info": META},
}
WHOLE["silva"] = WHOLE["vllm"]
STREAMED: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"choices": [{"index": 0, "delta": SAID}]},
        {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": LOGPROBS, "token_ids": IDS}],
            **HEAD,
        },
    ],
    "anthropic": [
        {"type": "message_start", "message": {"content": [], "usage": BILLED, "model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": BLOCKS[1] | {"input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": BILLED},
        {"type": "message_stop"},
    ],
    "vllm": [WHOLE["vllm"]],
    "silva": [WHOLE["vllm"]],
    "sglang": [WHOLE["sglang"]],
}


def opened(kind: str, url: str) -> Any:
    endpoint = Endpoint(url=url, model="m", api_key_env="", token_ids=True, input_price=1.0)
    if kind == "chat":
        return Client(endpoint, retry=NO_RETRY)
    if kind == "anthropic":
        return AnthropicClient(endpoint, retry=NO_RETRY)
    return open_exact(RENDERER, kind, endpoint, retry=NO_RETRY)


async def asked(kind: str, stream: bool, pieces: list[bytes], status: str = "200 OK", head: bytes = b"") -> Any:
    """What a client makes of an answer of these pieces: a completion or a `ModelError`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            size = int((await reader.readuntil(b"\r\n\r\n")).lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(size)
            writer.write(f"HTTP/1.1 {status}\r\nconnection: close\r\n".encode() + head + b"\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        model = opened(kind, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        try:
            if not stream:
                return await model.complete(ASKED)
            deltas = [delta async for delta in model.stream(ASKED)]
            return deltas[-1].completion
        except ModelError as error:
            assert len(str(error)) < 1000
            return error
        finally:
            await model.close()


def read(kind: str, stream: bool, pieces: list[bytes], **more: Any) -> Completion | ModelError:
    """The same; what is read can be kept."""
    found = asyncio.run(asked(kind, stream, pieces, **more))
    if isinstance(found, Completion):
        msgspec.msgpack.encode(found)
    return found


def framed(events: list[Any]) -> list[bytes]:
    written = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    return [b"".join(b"data: " + event + b"\n\n" for event in [*written, b"[DONE]"])]


def body(kind: str, stream: bool) -> Any:
    return STREAMED[kind] if stream else WHOLE[kind]


def written(value: Any, stream: bool) -> list[bytes]:
    return framed(value) if stream else [json.dumps(value).encode()]


each = pytest.mark.parametrize("kind", KINDS)
either = pytest.mark.parametrize("stream", [False, True])


@each
@either
def test_the_bodies_the_others_are_made_from_are_read(kind: str, stream: bool) -> None:
    found = read(kind, stream, written(body(kind, stream), stream))
    assert isinstance(found, Completion), found
    assert found.message.text == "hi" or found.message.tool_calls


NESTED = [DEEP, b'{"error":' + DEEP, b'{"choices":' + DEEP, b'{"other":' + DEEP, b'{"a":' * 100_000]


@each
@either
@pytest.mark.parametrize("data", NESTED)
def test_what_is_nested_without_end_is_garbage(kind: str, stream: bool, data: bytes) -> None:
    found = read(kind, stream, framed([data]) if stream else [data])
    assert isinstance(found, ModelError) and found.kind == "garbage"


@each
@either
@pytest.mark.parametrize("data", NESTED)
def test_an_error_that_is_nested_without_end_keeps_its_status(kind: str, stream: bool, data: bytes) -> None:
    found = read(kind, stream, [data], status="503 Busy")
    assert isinstance(found, ModelError) and found.kind == "server"


@each
@either
@pytest.mark.parametrize("code", ["²", "٤٢٩", "4" * 5000, "-1", "", None, 4 * 10**4000, [["5"]], "99", "600"])
def test_an_errors_code_may_be_anything(kind: str, stream: bool, code: Any) -> None:
    error = {"error": {"message": "x", "code": code}}
    found = read(kind, stream, written([error] if stream else error, stream))
    assert isinstance(found, ModelError) and found.kind in ("refused", "garbage") and "x" in str(found)


@pytest.mark.parametrize("kind", ["chat", "vllm", "sglang"])
@either
def test_an_errors_code_that_is_a_status_counts_as_one(kind: str, stream: bool) -> None:
    for code in (429, "429"):
        error = {"error": {"message": "x", "code": code}}
        found = read(kind, stream, written([error] if stream else error, stream))
        assert isinstance(found, ModelError) and found.kind == "rate_limit"


@pytest.mark.parametrize("kind", ["vllm", "silva", "sglang"])
@either
def test_a_prompt_that_is_said_to_be_empty_is_another(kind: str, stream: bool) -> None:
    changed: Any = deepcopy(body(kind, stream))
    reply = changed[0] if stream else changed
    del reply["prompt_token_ids"]
    (reply if kind == "sglang" else reply["choices"][0])["prompt_token_ids"] = []
    found = read(kind, stream, written(changed, stream))
    assert isinstance(found, ModelError) and found.kind == "garbage" and "another prompt" in str(found)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in steps:
        yield from places(item, (*path, step))


ODD = st.one_of(
    st.sampled_from([None, "", "²", "9" * 5000, -1, 10**30, 10**400, 1.5, True, [], {}, [[]], [None], {"a": {}}]),
    st.recursive(st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5), st.lists, max_leaves=5),
)


@each
@either
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_an_odd_value_anywhere_is_read_or_a_failure_of_the_model(kind: str, stream: bool, data: st.DataObject) -> None:
    changed: Any = deepcopy(body(kind, stream))
    if data.draw(st.integers(0, 5)) == 0:
        target: Any = data.draw(st.sampled_from(changed)) if stream else changed
        target["error"] = data.draw(ODD)
    else:
        *before, last = data.draw(st.sampled_from([path for path in places(changed) if len(path) > stream]))
        inner = changed
        for step in before:
            inner = inner[step]
        inner[last] = data.draw(ODD)
    found = read(kind, stream, written(changed, stream))
    assert isinstance(found, Completion | ModelError)


STATUS = st.sampled_from(["200 OK", "400 No", "404 Gone", "429 Slow", "503 Busy", "299 Odd", "204 Nothing"])
WAIT = st.sampled_from(
    [b"", b"retry-after: 1\r\n", b"retry-after: " + b"9" * 400 + b"\r\n", b"retry-after: \xb2\r\n"]
    + [b"retry-after-ms: " + value + b"\r\n" for value in (b"inf", b"nan", b"-5", b"x")]
    + [b"retry-after: Fri, 31 Dec 99999 23:59:59 GMT\r\n"]
)


@each
@either
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_under_any_status_are_read_or_a_failure_of_the_model(
    kind: str, stream: bool, data: st.DataObject
) -> None:
    good = b"".join(written(body(kind, stream), stream))
    cut = st.integers(0, len(good)).map(lambda end: good[:end])
    spoiled = st.tuples(st.integers(0, len(good) - 1), st.binary(min_size=1, max_size=3)).map(
        lambda drawn: good[: drawn[0]] + drawn[1] + good[drawn[0] + 1 :]
    )
    sent = data.draw(st.one_of(st.binary(max_size=80), cut, spoiled))
    found = read(kind, stream, [sent], status=data.draw(STATUS), head=data.draw(WAIT))
    assert isinstance(found, Completion | ModelError)
    if isinstance(found, ModelError) and found.retry_after is not None:
        assert 0 <= found.retry_after < float("inf")


def too_much(first: bytes, piece: bytes, most: int) -> list[bytes]:
    return [first, *[piece] * (3 * most // len(piece))]


LARGE: list[tuple[bool, str, Callable[[], list[bytes]]]] = [
    (False, "reply", lambda: too_much(b'{"x":"', b"a" * (1 << 20), MOST_REPLY)),
    (True, "event", lambda: too_much(b"data: ", b"a" * (1 << 20), MOST_EVENT)),
    (True, "event", lambda: too_much(b"", b"data: " + b"a" * 1000 + b"\n", MOST_EVENT)),
]


@each
@pytest.mark.parametrize(("stream", "what", "made"), LARGE)
async def test_what_has_no_end_is_not_read_on(
    kind: str, stream: bool, what: str, made: Callable[[], list[bytes]]
) -> None:
    began = time.perf_counter()
    found = await asked(kind, stream, made())
    assert isinstance(found, ModelError) and found.kind == "garbage"
    assert f"{what}" in str(found) and "is larger than" in str(found)
    assert time.perf_counter() - began < 10


async def test_a_head_that_has_no_end_is_not_read_on() -> None:
    found = await asked("chat", False, [b""], head=b"x: " + b"a" * (4 << 20))
    assert isinstance(found, ModelError) and found.kind == "garbage" and "head" in str(found)


async def test_a_long_event_in_small_pieces_costs_no_more_than_its_length() -> None:
    from silva.models.stream import events

    class Dripping:
        """An event, a few bytes at a time."""

        def __init__(self, size: int) -> None:
            self.left = size

        async def readany(self) -> bytes:
            self.left -= 128
            return b"a" * 128 if self.left > 0 else b"\n\n" if self.left > -128 else b""

    async def spent(size: int) -> float:
        found: AsyncIterator[list[bytes]] = events(Dripping(size), asyncio.get_running_loop().time() + 600)
        began = time.process_time()
        assert [event async for event in found] == []
        return time.process_time() - began

    # The least of some of both, for what else the machine does only adds; a square would be 64 times as much.
    short, long = [min([await spent(size) for _ in range(5)]) for size in (1 << 19, 1 << 22)]
    assert long < 40 * short, "eight times as long costs eight times as much, and not its square"
