"""Streams in any pieces: what is read is what was sent, in its order, and what came together is handed on together."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.model import Delta, Request
from silva.models.retry import Retry
from silva.tree import user

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
SAID = st.lists(
    st.tuples(st.sampled_from(["content", "reasoning_content"]), st.text(min_size=1, max_size=5)), min_size=1
)


def event(**delta: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"


END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


async def streamed(chunks: list[bytes]) -> tuple[list[Delta], ModelError | None]:
    """What a client hands on of a stream that comes in these chunks, and what ended it early."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    found: list[Delta] = []
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with Client(Endpoint(url=url, model="m", api_key_env=""), retry=Retry(attempts=1)) as client:
            try:
                async for delta in client.stream(Request(messages=(user("hi"),))):
                    found.append(delta)
            except ModelError as error:
                return found, error
    return found, None


def in_order(deltas: list[Delta]) -> list[tuple[str, str]]:
    """Kinds and characters in the order in which they are read: thoughts of a piece before its words."""
    kinds = [(kind, text) for d in deltas for kind, text in (("reasoning_content", d.thinking), ("content", d.text))]
    return [(kind, letter) for kind, text in kinds for letter in text]


@given(SAID, st.data())
def test_whatever_the_chunks_it_is_read_in_its_order(said: list[tuple[str, str]], data: st.DataObject) -> None:
    whole = b"".join(event(**{kind: text}) for kind, text in said) + END
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    chunks = [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    deltas, error = asyncio.run(streamed(chunks))
    assert error is None
    assert in_order(deltas[:-1]) == [(kind, letter) for kind, text in said for letter in text]
    last = deltas[-1].completion
    assert last is not None and last.message.text == "".join(text for kind, text in said if kind == "content")


def test_what_came_together_is_handed_on_together() -> None:
    thoughts = [event(reasoning_content=word) for word in ("a", "b")]
    words = [event(content=word) for word in ("c", "d", "e")]
    deltas, _ = asyncio.run(streamed([b"".join([*thoughts, *words, *thoughts, *words, END])]))
    assert [(delta.thinking, delta.text) for delta in deltas[:-1]] == [("ab", "cde")] * 2


def test_what_came_before_an_error_is_handed_on() -> None:
    fault = b'data: {"error":{"message":"out of memory"}}\n\n'
    deltas, error = asyncio.run(streamed([event(content="half ") + event(content="a word") + fault]))
    assert [delta.text for delta in deltas] == ["half a word"]
    assert error is not None and "out of memory" in str(error)


@pytest.mark.parametrize("end", [b"", b"data: nonsense\n\n"])
def test_a_stream_without_an_end_is_an_error_after_what_came(end: bytes) -> None:
    deltas, error = asyncio.run(streamed([event(content="half"), end]))
    assert "".join(delta.text for delta in deltas) == "half"
    assert error is not None and error.kind == "garbage"
