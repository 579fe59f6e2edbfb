"""Posting over plain TCP: answers that come faster than they are read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from yarl import URL

from cycles import nobody_looking_for_cycles
from silva.models.plain import MOST_BUFFERED, BrokenError, Plain, Response, _Connection
from silva.models.sizes import whole

LONG = bytes(range(256)) * (MOST_BUFFERED // 64)
"""Four times what may wait to be read."""


@asynccontextmanager
async def answering(body: bytes) -> AsyncIterator[Plain]:
    """A server that answers every request with the body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                await reader.readexactly(length)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    plain = Plain(URL(f"http://{host}:{port}/v1"))
    try:
        yield plain
    finally:
        plain.close()
        server.close()


@pytest.mark.parametrize("late", [0.0, 0.3])
async def test_a_long_answer_is_read_whole_however_late_it_is_asked_for(late: float) -> None:
    async with answering(LONG) as plain, asyncio.timeout(30):
        for _ in range(3):  # over one connection
            response = await plain.post(b"{}", {})
            await asyncio.sleep(late)
            assert await whole(response.content) == LONG
            response.close()


@pytest.mark.parametrize("late", [0.0, 0.05])
async def test_a_long_answer_is_read_piece_by_piece_at_the_readers_pace(late: float) -> None:
    async with answering(LONG) as plain, asyncio.timeout(30):
        for _ in range(2):
            response = await plain.post(b"{}", {})
            found = b""
            while piece := await response.readany():
                found += piece
                await asyncio.sleep(late)
            assert found == LONG
            response.close()


async def test_a_connection_that_broke_leaves_nothing_to_look_for() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if len(heard) % 2:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome of it")
        heard.append(True)
        writer.close()

    async def ask() -> None:
        response = await plain.post(b"{}", {})
        try:
            await whole(response.content)
        finally:
            response.close()

    heard: list[bool] = []
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    plain = Plain(URL(f"http://{host}:{port}/v1"))
    with nobody_looking_for_cycles():
        for _ in range(10):
            with suppress(BrokenError):
                await ask()
        await asyncio.sleep(0.1)
        assert len(heard) == 10
        assert not [each for each in gc.get_objects() if isinstance(each, (_Connection, Response))]
    plain.close()
    server.close()
