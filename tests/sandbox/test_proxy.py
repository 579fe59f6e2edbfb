"""The allow-list: what it lets through and what it does not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import pytest

from silva.errors import UsageError
from silva.sandbox.door import Door
from silva.sandbox.proxy import Allowed, Proxy
from silva.sandbox.room import Room


@pytest.mark.parametrize(
    ("rules", "host", "port", "lets"),
    [
        (("pypi.org",), "pypi.org", 443, True),
        (("pypi.org",), "PyPI.org.", 80, True),
        (("pypi.org",), "pypi.org", 22, False),
        (("pypi.org:22",), "pypi.org", 22, True),
        (("pypi.org:22",), "pypi.org", 443, False),
        (("pypi.org",), "evilpypi.org", 443, False),
        (("pypi.org",), "pypi.org.evil.com", 443, False),
        (("*.pypi.org",), "files.pypi.org", 443, True),
        (("*.pypi.org",), "pypi.org", 443, False),
        (("*.pypi.org",), ".pypi.org", 443, False),
        (("127.0.0.1:8080",), "127.0.0.1", 8080, True),
        (("[::1]:8080",), "::1", 8080, True),
        ((), "pypi.org", 443, False),
    ],
)
def test_rules(rules: tuple[str, ...], host: str, port: int, lets: bool) -> None:
    assert Allowed(rules).lets(host, port) is lets


@pytest.mark.parametrize("rule", ["", "http://pypi.org", "a b", "*", "host:port", "host:80:90"])
def test_rules_that_are_none(rule: str) -> None:
    with pytest.raises(UsageError, match="is no host"):
        Allowed((rule,))


async def talked(rules: tuple[str, ...], request: bytes) -> bytes:
    proxy = await Proxy.open(socket.create_server(("127.0.0.1", 0)), rules)
    assert proxy._server is not None
    reader, writer = await asyncio.open_connection(*proxy._server.sockets[0].getsockname())
    writer.write(request)
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await proxy.close()
    return said


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"heard:" + await reader.read(1000))
    writer.close()


async def test_a_tunnel_and_a_request_pass() -> None:
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        rules = (f"127.0.0.1:{port}",)
        tunnel = await talked(rules, b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port + b"raw")
        assert tunnel.startswith(b"HTTP/1.1 200") and tunnel.endswith(b"heard:raw")
        plain = f"GET http://127.0.0.1:{port}/a?b HTTP/1.1\r\nHost: x\r\nProxy-Authorization: secret\r\n\r\n"
        said = await talked(rules, plain.encode())
        assert said.startswith(b"heard:GET /a?b HTTP/1.1\r\nHost: x\r\n") and b"secret" not in said


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"CONNECT example.com:443 HTTP/1.1\r\n\r\n", 403),
        (b"GET http://example.com/ HTTP/1.1\r\n\r\n", 403),
        (b"GET /relative HTTP/1.1\r\n\r\n", 400),
        (b"GET ftp://allowed.test/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT allowed.test:99999 HTTP/1.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT " + b"a" * 70 + b".allowed.test:443 HTTP/1.1\r\n\r\n", 502),
    ],
)
async def test_what_does_not_pass_says_why(request_: bytes, code: int) -> None:
    said = await talked(("allowed.test", "*.allowed.test"), request_)
    assert said.startswith(b"HTTP/1.1 %d " % code) and b"silva: " in said


async def test_a_name_that_leads_to_this_machine_is_not_believed() -> None:
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        request = b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port
        assert b"403" in await talked((f"localhost:{port}",), request)
        assert b"200" in await talked((f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"), request + b"x")


class Endless:
    """A server that takes every connection and says nothing."""

    def __init__(self) -> None:
        self.taken = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        await reader.read()
        writer.close()


async def tunnel(proxy: Proxy, port: int) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    assert proxy._server is not None
    reader, writer = await asyncio.open_connection(*proxy._server.sockets[0].getsockname())
    writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
    return await asyncio.wait_for(reader.readline(), 10), reader, writer


async def test_one_sandbox_has_so_many_connections_and_gives_way_to_others() -> None:
    async with await asyncio.start_server(Endless(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        room, rules = Room(each=6, together=8), (f"127.0.0.1:{port}",)
        greedy, modest = [await Proxy.open(socket.create_server(("127.0.0.1", 0)), rules, room) for _ in range(2)]
        held = [await tunnel(greedy, port) for _ in range(8)]
        assert [b" 200 " in said for said, *_ in held] == [True] * 6 + [False] * 2
        assert b" 503 " in held[-1][0]
        others = [await tunnel(modest, port) for _ in range(4)]
        assert all(b" 200 " in said for said, *_ in others)
        # The idlest of the greedy one's gave way; the others of it go on.
        assert len(greedy._guests.inside) == 4 and len(modest._guests.inside) == 4
        assert await asyncio.wait_for(held[0][1].read(), 10) == b"\r\n"
        for _, _, writer in (*held, *others):
            writer.close()
        await greedy.close()
        await modest.close()
        room.close()


async def test_a_connection_that_nothing_goes_through_is_closed_at_both_ends() -> None:
    async with await asyncio.start_server(Endless(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        proxy = await Proxy.open(socket.create_server(("127.0.0.1", 0)), (f"127.0.0.1:{port}",), idle=0.2)
        said, reader, writer = await tunnel(proxy, port)
        assert b" 200 " in said
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b"\r\n"
        writer.close()
        await proxy.close()
        assert not proxy._guests.inside


async def test_a_name_server_that_does_not_answer_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(host: str, port: int, **_: object) -> list[object]:
        asked.set()
        answer.wait(30)
        raise OSError("no such host")

    monkeypatch.setattr("silva.sandbox.room.socket.getaddrinfo", slow)
    proxy = await Proxy.open(socket.create_server(("127.0.0.1", 0)), ("*.slow.test",))
    waiting = []
    for number in range(12):
        assert proxy._server is not None
        _, writer = await asyncio.open_connection(*proxy._server.sockets[0].getsockname())
        writer.write(b"CONNECT n%d.slow.test:443 HTTP/1.1\r\n\r\n" % number)
        waiting.append(writer)
    async with asyncio.timeout(10):
        assert await asyncio.get_running_loop().run_in_executor(None, asked.wait, 9)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "done"), 10) == "done"
    answer.set()
    for writer in waiting:
        writer.close()
    await proxy.close()


async def test_a_door_has_room_for_so_many_and_those_inside_go_on() -> None:
    async def lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async with await asyncio.start_server(lines, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        listening = socket.create_server(("127.0.0.1", 0))
        door = await Door.open(listening, port, Room(each=2))
        at = listening.getsockname()[1]
        inside = [await asyncio.open_connection("127.0.0.1", at) for _ in range(2)]
        for number, (reader, writer) in enumerate(inside):
            writer.write(f"{number}\n".encode())
            assert await reader.readline() == f"{number}\n".encode()
        reader, third = await asyncio.open_connection("127.0.0.1", at)
        assert await reader.read() == b""
        third.close()
        reader, first = inside[0]
        first.write_eof()  # having said all, it may still listen
        assert await reader.read() == b""
        first.close()
        while True:  # its place is free once it has been noticed to be gone
            reader, again = await asyncio.open_connection("127.0.0.1", at)
            again.write(b"again\n")
            with contextlib.suppress(ConnectionError):
                if await reader.readline() == b"again\n":
                    break
            again.close()
        again.close()
        inside[1][1].close()
        await door.close()
