"""The allow-list: what it lets through and what it does not."""

from __future__ import annotations

import asyncio
import socket

import pytest

from silva.errors import UsageError
from silva.sandbox.proxy import Allowed, Proxy


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
    ],
)
async def test_what_does_not_pass_says_why(request_: bytes, code: int) -> None:
    said = await talked(("allowed.test",), request_)
    assert said.startswith(b"HTTP/1.1 %d " % code) and b"silva: " in said


async def test_a_name_that_leads_to_this_machine_is_not_believed() -> None:
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        request = b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port
        assert b"403" in await talked((f"localhost:{port}",), request)
        assert b"200" in await talked((f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"), request + b"x")
