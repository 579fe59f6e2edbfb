"""The load generator: a closed loop of clients over kept-alive raw connections, in a process of its own.

    Shape (which bytes to send) ─▶ Connection.ask ─▶ whole reply, nonce checked ─▶ latency ─▶ next request at once

`pairs` asks the backend and the gateway in turn over one connection each, so that each gateway latency has a direct one taken
beside it. `closed` keeps N clients busy for some seconds. Prompts are 6 KB and begin every message with a nonce of
their own: nothing can be answered from a cache or stored once. `turns` above one lets each client carry conversations of that many
turns, the replies of earlier turns included.

Arguments: one JSON object (see `main`). Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop
from gateway_backend import NONCE_LENGTH, TAIL, nonce

PROMPT_BYTES = 6 * 1024
FOLLOW_BYTES = 240
_draw = random.Random(11)
_TEXT = " ".join("".join(_draw.choices("abcdefghijklmnoprstuvw", k=_draw.randint(2, 9))) for _ in range(2000))
_SYSTEM = _TEXT[: PROMPT_BYTES // 3]
_USER = _TEXT[PROMPT_BYTES // 3 : PROMPT_BYTES - 2 * NONCE_LENGTH]
_FOLLOW = _TEXT[-FOLLOW_BYTES:]


@dataclass(frozen=True)
class Endpoint:
    """Where one client sends: the base URL (with `/v1`) and the bearer token."""

    url: str
    token: str = "unused"
    model: str = "scripted"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80

    def request(self, messages: bytes, stream: bool) -> bytes:
        """One whole HTTP request around the given JSON messages."""
        parts = urlsplit(self.url)
        tail = b',"stream":true,"stream_options":{"include_usage":true}}' if stream else b"}"
        body = b'{"model":"%s","temperature":1.0,"max_tokens":200,"messages":[%s]%s' % (
            self.model.encode(),
            messages,
            tail,
        )
        head = (
            f"POST {parts.path}/chat/completions HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\naccept: */*\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _message(role: str, text: bytes) -> bytes:
    return b'{"role":"%s","content":"%s"}' % (role.encode(), text)


class Conversations:
    """What one client sends next: conversations of `turns` turns, each conversation's number never used before."""

    def __init__(self, numbers: itertools.count[int], turns: int) -> None:
        self._numbers, self._turns = numbers, turns
        self._number, self._turn, self._said = 0, turns, b""

    def next(self) -> tuple[bytes, bytes]:
        """The JSON messages of the next request and the nonce its reply must carry."""
        if self._turn >= self._turns:
            self._number, self._turn = next(self._numbers), 0
            mark = nonce(self._number, 0)
            self._said = (
                _message("system", mark + b" " + _SYSTEM.encode())
                + b","
                + _message("user", mark + b" " + _USER.encode())
            )
        else:
            before, mark = nonce(self._number, self._turn - 1), nonce(self._number, self._turn)
            self._said += (
                b","
                + _message("assistant", before + TAIL.encode())
                + b","
                + _message("user", mark + b" " + _FOLLOW.encode())
            )
        self._turn += 1
        return self._said, mark


class Connection(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self, endpoint: Endpoint, stream: bool) -> None:
        self._endpoint, self._stream = endpoint, stream
        self._transport: asyncio.WriteTransport | None = None
        self._parts: list[bytes] = []
        self._mark = b""
        self._wanted = -1
        self._got = 0
        self._begun = 0.0
        self._done: Callable[[float, str | None], None] | None = None
        self.opened = 0

    async def open(self) -> None:
        """Connect (again)."""
        await asyncio.get_running_loop().create_connection(lambda: self, *self._endpoint.address)
        self.opened += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits learns that the reply will not come."""
        self._transport = None
        self._finish("connection lost")

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None

    def ask(self, messages: bytes, mark: bytes, done: Callable[[float, str | None], None]) -> None:
        """Send one request; `done` is called with the seconds it took and what was wrong, or None."""
        assert self._transport is not None
        self._parts, self._got, self._wanted, self._mark, self._done = [], 0, -1, mark, done
        data = self._endpoint.request(messages, self._stream)
        self._begun = time.perf_counter()
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Collect; when the reply is whole, check it and say so."""
        self._parts.append(data)
        self._got += len(data)
        if self._wanted < 0 and not self._measure():
            return
        if self._wanted > 0:
            if self._got >= self._wanted:
                self._finish(self._fault())
        elif (data if len(data) >= 5 else b"".join(self._parts)).endswith(b"0\r\n\r\n"):
            self._finish(self._fault())

    def _measure(self) -> bool:
        """Read the head: `_wanted` becomes the reply's length with its head, or 0 for a chunked one."""
        start = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        end = start.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = start[:end].lower()
        at = head.find(b"\r\ncontent-length:")
        self._wanted = 0 if at < 0 else end + 4 + int(head[at + 17 :].split(b"\r\n", 1)[0])
        return True

    def _fault(self) -> str | None:
        whole = b"".join(self._parts)
        if not whole.startswith(b"HTTP/1.1 200"):
            return f"status {whole[9:12].decode(errors='replace')}: {whole.partition(bytes(2 * [13, 10]))[2][:160].decode(errors='replace')}"
        if self._mark in whole or self._mark in _unchunked(whole):
            return None
        return "a reply without its nonce"

    def _finish(self, fault: str | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(time.perf_counter() - self._begun, fault)


def _unchunked(whole: bytes) -> bytes:
    """A chunked body put together, for a nonce that fell on the edge of two chunks."""
    rest, pieces = whole.partition(b"\r\n\r\n")[2], []
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16) if line else 0
        pieces.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(pieces)


@dataclass
class Tally:
    """What one measurement saw. `acknowledged` counts every good reply, those of the warm-up included."""

    acknowledged: int = 0
    latencies: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    reopened: int = 0

    def report(self, seconds: float) -> dict[str, Any]:
        """Rates and latencies in milliseconds."""
        ordered = sorted(self.latencies)
        return {
            "acknowledged": self.acknowledged,
            "measured": len(ordered),
            "seconds": round(seconds, 4),
            "rps": round(len(ordered) / seconds, 1) if seconds else None,
            "p50_ms": _at(ordered, 0.50),
            "p99_ms": _at(ordered, 0.99),
            "max_ms": _at(ordered, 1.0),
            "faults": dict(self.faults.most_common(5)),
            "reopened": self.reopened,
        }


def _at(ordered: list[float], share: float) -> float | None:
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4) if ordered else None


async def closed(endpoints: list[Endpoint], seconds: float, warm: float, turns: int, stream: bool) -> dict[str, Any]:
    """Keep one client an endpoint busy for `warm` and then `seconds`; only the latter is measured."""
    tally, numbers = Tally(), itertools.count(secrets.randbits(40))
    connections = [Connection(one, stream) for one in endpoints]
    await asyncio.gather(*(one.open() for one in connections))
    begun = time.perf_counter()
    first, last = begun + warm, begun + warm + seconds

    async def client(connection: Connection) -> None:
        says, finished = Conversations(numbers, turns), asyncio.get_running_loop().create_future()

        def again() -> None:
            connection.ask(*says.next(), done)

        def done(took: float, fault: str | None) -> None:
            now = time.perf_counter()
            if fault is not None:
                tally.faults[fault] += 1
            else:
                tally.acknowledged += 1
                if first < now <= last:
                    tally.latencies.append(took)
            if now < last and connection.is_open:
                again()
            elif not finished.done():
                finished.set_result(None)

        while time.perf_counter() < last:
            again()
            await finished
            if connection.is_open or time.perf_counter() >= last:
                return
            tally.reopened += 1
            finished = asyncio.get_running_loop().create_future()
            await connection.open()

    await asyncio.gather(*(client(one) for one in connections))
    return tally.report(seconds)


async def pairs(direct: Endpoint, through: Endpoint, count: int, warm: int, stream: bool) -> dict[str, Any]:
    """Ask both in turn `count` times (after `warm`): their latencies and what going through the gateway added."""
    numbers = itertools.count(secrets.randbits(40))
    ways = {"direct": Connection(direct, stream), "through": Connection(through, stream)}
    tallies = {name: Tally() for name in ways}
    says = Conversations(numbers, 1)
    for at in range(warm + count):
        for name in ways if at % 2 else reversed(ways):
            connection = ways[name]
            if not connection.is_open:
                await connection.open()
            took, fault = await _once(connection, says)
            if fault is not None:
                tallies[name].faults[fault] += 1
                took = float("nan")
            else:
                tallies[name].acknowledged += 1
            if at >= warm:
                tallies[name].latencies.append(took)
    added = [
        there - here
        for here, there in zip(*(tallies[name].latencies for name in ways), strict=True)
        if there == there and here == here
    ]
    for tally in tallies.values():
        tally.latencies = [one for one in tally.latencies if one == one]
    return {
        "added_ms": [round(1000 * one, 4) for one in added],
        **{name: tally.report(sum(tally.latencies)) for name, tally in tallies.items()},
    }


async def _once(connection: Connection, says: Conversations) -> tuple[float, str | None]:
    future: asyncio.Future[tuple[float, str | None]] = asyncio.get_running_loop().create_future()
    connection.ask(*says.next(), lambda took, fault: future.set_result((took, fault)))
    return await future


def main() -> None:
    """Run what the JSON argument asks: `{"kind": "pairs"|"closed", ...}` with the arguments of that function."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    kind = asked.pop("kind")
    if kind == "pairs":
        direct, through = (Endpoint(**asked.pop(name)) for name in ("direct", "through"))
        work = pairs(direct, through, **asked)
    else:
        work = closed([Endpoint(**one) for one in asked.pop("endpoints")], **asked)
    json.dump(uvloop.run(work), sys.stdout)


if __name__ == "__main__":
    main()
