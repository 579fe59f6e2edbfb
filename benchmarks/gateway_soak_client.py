"""Programs that talk through the gateway until each question is answered, and write down what they were told.

    Pacer ─▶ Program.converse ─ question, tool call, answer, … ─▶ ask ─ dialect, stream, hang up, retry ─▶ Ledger (a line per reply)

A program retries as the vendors' SDKs do: the same bytes, with the number of the try in `x-stainless-retry-count`, or under
one `Idempotency-Key`. It sends a question anew, as a second sample, only where it wants two.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
from gateway_soak_backend import TOOL
from gateway_soak_dialects import PATHS, Broken, Reply, Said, body, digest, streamed, whole
from gateway_soak_runs import Rollout, Runs

RETRIED = frozenset({408, 429, 500, 502, 503, 504, 507})
PATIENCE = 15.0
"""Seconds one try may take, told to the gateway as SDKs tell it."""


class Pacer:
    """Hands out turns at a steady rate; what was missed while nobody answered is not made up for."""

    def __init__(self, rate: float) -> None:
        self._gap = 1.0 / rate
        self._next = time.monotonic()

    async def turn(self) -> None:
        """Return when it is the caller's turn."""
        now = time.monotonic()
        self._next = max(self._next + self._gap * random.uniform(0.4, 1.6), now)
        await asyncio.sleep(self._next - now)


class Ledger:
    """What the clients know: a line of JSON for every reply they were given whole, in a file of its own.

    `asked` counts, for every run and conversation, how many samples were wanted of it: no more turns than that may stand there.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self.asked: Counter[tuple[str, str]] = Counter()
        self.counts: Counter[str] = Counter()
        self.odd: list[str] = []
        self.seconds: dict[str, list[tuple[float, float]]] = {
            "whole": [],
            "stream": [],
            "first piece": [],
            "with retries": [],
        }
        self.told_at: list[float] = []

    def told(self, rollout: Rollout, dialect: str, reply: Reply, asked: list[Said], cut: bool) -> None:
        """A whole reply arrived. `cut`: the connection was lost meanwhile, so the gateway may have been killed."""
        self.told_at.append(time.monotonic())
        line = {
            "run": rollout.run,
            "rollout": rollout.name,
            "task": rollout.task,
            "index": rollout.index,
            "dialect": dialect,
            "reply": reply.id,
            "text": reply.said.text,
            "calls": [[call.name, call.arguments] for call in reply.said.calls],
            "walk": digest([*asked, reply.said]),
            "cut": cut,
        }
        self._file.write(json.dumps(line) + "\n")

    def took(self, what: str, began: float) -> None:
        """Something that began then is done."""
        now = time.monotonic()
        self.seconds[what].append((now, now - began))

    def strange(self, what: str) -> None:
        """Something no client should see."""
        self.counts["strange answers"] += 1
        if len(self.odd) < 50:
            self.odd.append(what[:400])

    def close(self) -> None:
        """Nothing more comes."""
        self._file.close()


class HungUp(Exception):
    """The client left in the midst of a reply."""


class Program:
    """One program after another in one place of the pool.

    Args:
        http: the connections.
        where: the gateway's URL.
        runs: who opens and ends runs and rollouts.
        pacer: when the next turn may be taken.
        ledger: where replies are written down.
    """

    def __init__(self, http: aiohttp.ClientSession, where: str, runs: Runs, pacer: Pacer, ledger: Ledger) -> None:
        self._http, self._where, self._runs, self._pacer, self._ledger = http, where, runs, pacer, ledger

    async def work(self, stop: asyncio.Event) -> None:
        """Converse until told to stop."""
        while not stop.is_set():
            rollout = await self._runs.rollout()
            try:
                await self._converse(rollout, stop)
            finally:
                await self._runs.leave(rollout)

    async def _converse(self, rollout: Rollout, stop: asyncio.Event) -> None:
        dialect = random.choice(tuple(PATHS))
        tool = TOOL if random.random() < 0.5 else ""
        said = [Said("system", f"You are a forester. Task {rollout.task}.")]
        if rollout.shared:
            said[0] = Said("system", f"You are a forester. Shared task {rollout.task}.")
        linked = dialect == "responses" and random.random() < 0.4
        previous, fresh = "", 0
        for _ in range(random.randint(1, 8)):
            if stop.is_set():
                return
            wish = " look it up" if tool and random.random() < 0.4 else ""
            said.append(Said("user", f"ask-{secrets.token_hex(6)}{wish}: which trees stand here, and since when?"))
            while True:
                reply = await self._ask(rollout, dialect, said, tool, previous, fresh)
                if reply is None:
                    return
                if random.random() < 0.03:
                    reply = await self._ask(rollout, dialect, said, tool, previous, fresh) or reply
                said.append(reply.said)
                fresh = len(said)
                previous = f"resp_{reply.id}" if linked else ""
                if not reply.said.calls:
                    break
                said += [Said("tool", f"found {call.arguments}", answers=call.id) for call in reply.said.calls]

    async def _ask(
        self, rollout: Rollout, dialect: str, said: list[Said], tool: str, previous: str, fresh: int
    ) -> Reply | None:
        """Ask until answered; None where the program gives the conversation up after hanging up."""
        await self._pacer.turn()
        ledger = self._ledger
        stream = random.random() < 0.5
        sent = body(dialect, said[fresh:] if previous else said, stream, tool, previous)
        ledger.asked[rollout.run, digest(said)] += 1
        key = secrets.token_hex(8) if random.random() < 0.2 else ""
        leaves = stream and random.random() < 0.04
        twice = bool(key) and random.random() < 0.15
        tried, cut, began = 0, False, time.monotonic()
        while True:
            headers = _headers(rollout, dialect, key, tried)
            try:
                if twice:
                    one, other = await asyncio.gather(
                        self._once(rollout, dialect, sent, headers, stream, False),
                        self._once(rollout, dialect, sent, headers, stream, False),
                        return_exceptions=True,
                    )
                    reply = self._same(one, other)
                else:
                    reply = await self._once(rollout, dialect, sent, headers, stream, leaves)
            except HungUp:
                ledger.counts["hung up"] += 1
                leaves = False
                if random.random() < 0.4:
                    ledger.counts["given up after hanging up"] += 1
                    return None
                wait = random.choice((0.0, 0.0, 0.05, 0.5))
            except _Again as again:
                ledger.counts[f"retried: {again}"] += 1
                cut = cut or again.cut
                wait = again.wait if again.wait is not None else min(0.1 * 2**tried, 2.0) * random.uniform(0.75, 1.0)
            else:
                ledger.told(rollout, dialect, reply, said, cut)
                ledger.counts["replies"] += 1
                ledger.counts[f"{dialect}, {'streamed' if stream else 'whole'}"] += 1
                if tried:
                    ledger.took("with retries", began)
                return reply
            tried += 1
            if tried > 400:
                ledger.strange(f"no answer after {tried} tries")
                return None
            await asyncio.sleep(wait)

    def _same(self, one: Reply | BaseException, other: Reply | BaseException) -> Reply:
        """Of two requests under one key: the reply, which must be one and the same."""
        for each in (one, other):
            if isinstance(each, BaseException) and not isinstance(each, _Again):
                raise each
        replies = [each for each in (one, other) if isinstance(each, Reply)]
        if not replies:
            assert isinstance(one, _Again)
            raise one
        self._ledger.counts["asked twice at once"] += 1
        if len(replies) == 2 and (replies[0].id, replies[0].said.text) != (replies[1].id, replies[1].said.text):
            self._ledger.strange(f"two requests under one key got {replies[0].id} and {replies[1].id}")
        return replies[-1]

    async def _once(
        self, rollout: Rollout, dialect: str, sent: bytes, headers: dict[str, str], stream: bool, leaves: bool
    ) -> Reply:
        url = f"{self._where}/r/{rollout.run}/{rollout.name}/v1/{PATHS[dialect]}"
        began = time.monotonic()
        try:
            async with self._http.post(url, data=sent, headers=headers) as answer:
                if answer.status != 200:
                    self._refused(answer.status, await answer.read(), url)
                    raise _Again(f"HTTP {answer.status}", _wait(answer.headers))
                if not stream:
                    reply = whole(dialect, await answer.read())
                    self._ledger.took("whole", began)
                else:
                    pieces: list[bytes] = []
                    async for piece in answer.content.iter_any():
                        if not pieces:
                            self._ledger.took("first piece", began)
                        pieces.append(piece)
                        if leaves:
                            answer.close()
                            raise HungUp
                    reply = streamed(dialect, b"".join(pieces))
                    self._ledger.took("stream", began)
                if answer.headers["x-silva-capture"] == "lost":
                    self._ledger.strange(f"reply {reply.id} was not kept")
                if answer.headers["x-silva-capture"] == "repeated":
                    self._ledger.counts["answered from the record"] += 1
                return reply
        except Broken as error:
            raise _Again("stream broken off" if stream else f"broken reply {error}", None) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _Again(type(error).__name__, None, cut=True) from error

    def _refused(self, status: int, data: bytes, url: str) -> None:
        if status not in RETRIED:
            self._ledger.strange(f"HTTP {status} at {url.rpartition('/r/')[2]}: {data[:200]!r}")


class _Again(Exception):
    """This try failed; `wait`: what the gateway said to wait; `cut`: the connection was lost."""

    def __init__(self, what: str, wait: float | None, *, cut: bool = False) -> None:
        super().__init__(what)
        self.wait = wait
        self.cut = cut


def _wait(headers: Any) -> float | None:
    return float(headers["retry-after"]) if "retry-after" in headers else None


def _headers(rollout: Rollout, dialect: str, key: str, tried: int) -> dict[str, str]:
    headers = {"content-type": "application/json", "x-stainless-timeout": f"{PATIENCE:g}"}
    headers |= {"x-api-key": rollout.token} if dialect == "anthropic" else {"authorization": f"Bearer {rollout.token}"}
    if dialect == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    if key:
        headers["idempotency-key"] = key
    else:
        headers["x-stainless-retry-count"] = str(tried)
    return headers


async def trespass(http: aiohttp.ClientSession, where: str, runs: Runs, ledger: Ledger, every: float) -> None:
    """For ever, send what must be refused: broken bodies, wrong tokens, names nobody has."""
    hello = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    cases: list[tuple[str, Any, int, bool]] = [
        ("chat/completions", b'{"model": "scripted", "messages": [', 400, True),
        ("chat/completions", {**hello, "messages": "hello"}, 400, True),
        ("responses", {"model": "scripted", "input": [{"type": "no-such-item"}]}, 400, True),
        (
            "messages",
            {"model": "scripted", "messages": [{"role": "nobody", "content": "x"}], "max_tokens": 5},
            400,
            True,
        ),
        ("chat/completions", {**hello, "tools": [{"type": "function"}]}, 400, True),
        ("chat/completions", b"\xff\xfe\x00", 400, True),
        ("chat/completions", {**hello, "model": "skripted"}, 404, True),
        ("nowhere", hello, 404, True),
        ("chat/completions", hello, 401, False),
        ("messages", hello, 401, False),
    ]
    while True:
        await asyncio.sleep(every * random.uniform(0.5, 1.5))
        path, given, wanted, known = random.choice(cases)
        run = runs.any()
        if run is None:
            continue
        name, token = run
        headers = {"authorization": f"Bearer {token if known else token[:-3] + 'xyz'}"}
        data = given if isinstance(given, bytes) else json.dumps(given).encode()
        try:
            async with http.post(f"{where}/r/{name}/stranger/v1/{path}", data=data, headers=headers) as answer:
                said = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            continue
        ledger.counts[f"refused as it should be: {wanted}"] += 1
        if answer.status != wanted:
            ledger.strange(f"{path} {data[:80]!r}: HTTP {answer.status}, wanted {wanted}: {said[:200]!r}")
