"""Whether a run at the gateway is slowed by what strangers send beside it, in another run.

    neighbour (four clients, 6 KB prompts)  ─┐
    strangers (two connections, one kind of  ├─▶ silva gateway ─▶ scripted backend
    bad input, as fast as they are answered) ─┘

Each kind is sent for some seconds while the neighbour works on. To compare with: the neighbour alone, and beside four
honest clients of another run, which take as much of the machine as anybody. What is not refused is asked in earnest: a
text of 4 MB, which is a million tokens, costs what it costs.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

from gateway_backend import serving
from gateway_load import Endpoint
from gateway_peers.silva import gateway

from gateway import ask
from report import Measurement, arguments, hand_in, load

WORST_MS = 100.0
MB = 1 << 20


_SAID: dict[str, Any] = {
    "model": "scripted",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "nonce-000000000000.00"}],
}
_MANY = b'{"model":"scripted","messages":[' + b",".join([b'{"role":"user","content":"x"}'] * 33_000)


def _body(**fields: Any) -> bytes:
    return json.dumps(_SAID | fields, separators=(",", ":")).encode()


LEAVES = "hangs up in the middle of a stream"
WAITS = "a thousand connections that say half a word"
BODIES: dict[str, Callable[[], bytes]] = {
    "10,000 messages": lambda: _body(messages=_SAID["messages"] * 10_000),
    "10 million short lists, 30 MB": lambda: _body(k=[[]] * 10_000_000),
    "2 million fields, 30 MB": lambda: _body(**{f"k{n}": 1 for n in range(2_000_000)}),
    "1 MB that ends in the middle": lambda: _MANY,
    "1 MB that is not UTF-8": lambda: _MANY[:-2] + b'\xff"}]}',
    "90,000 levels": lambda: _body()[:-1] + b',"k":' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    "513 tools": lambda: _body(tools=[_tool(n) for n in range(513)]),
    LEAVES: lambda: _body(stream=True),
    "a text of 4 MB": lambda: _body(
        messages=[{"role": "user", "content": "nonce-000000000000.00 " + "word " * 800_000}]
    ),
}
"""What strangers send, by its name; a request each."""


def _tool(number: int) -> dict[str, Any]:
    return {"type": "function", "function": {"name": f"f{number}", "parameters": {"type": "object", "properties": {}}}}


def requests(kind: str, endpoint: Endpoint) -> Iterator[bytes]:
    """The bytes of one connection's life, in the pieces they are sent in; the last is a whole request or its end."""
    host, port = endpoint.address
    path = "/" + endpoint.url.split("/", 3)[3] + "/chat/completions"
    head = f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {endpoint.token}\r\n"
    if kind == "100 MB announced":
        yield f"{head}content-length: {100 * MB}\r\n\r\n".encode()
    elif kind == "no HTTP":
        yield b"\x16\x03\x01" * 30_000
    elif kind == "100 MB in chunks":
        yield f"{head}transfer-encoding: chunked\r\n\r\n".encode()
        for _ in range(100):
            yield b"%x\r\n%b\r\n" % (MB, b" " * MB)
    elif kind == WAITS:
        yield head[:20].encode()
    else:
        body = BODIES[kind]()
        yield f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


KINDS = ("100 MB announced", "100 MB in chunks", "no HTTP", *BODIES, WAITS)


def stranger(kind: str, endpoint: Endpoint, ready: Barrier, over: Event, told: Queue[Counter[str]]) -> None:
    """Send one kind of request over and over; tells how it was answered."""
    pieces = list(requests(kind, endpoint))
    answers: Counter[str] = Counter()
    if kind == WAITS:
        held = [socket.create_connection(endpoint.address, timeout=60) for _ in range(500)]
        answers["open"] = len(held)
        for each in held:
            each.sendall(pieces[0])
        ready.wait(60)
        over.wait()
        told.put(answers)
        return
    ready.wait(60)
    while not over.is_set():
        try:
            with socket.create_connection(endpoint.address, timeout=60) as connection:
                answers[_sent(connection, pieces, kind == LEAVES)] += 1
        except OSError as error:
            answers[type(error).__name__] += 1
    told.put(answers)


def _sent(connection: socket.socket, pieces: list[bytes], leaves: bool) -> str:
    try:
        for piece in pieces:
            connection.sendall(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was refused before all of it was sent
    answer = connection.recv(16 if leaves else 1 << 16)
    return answer[9:12].decode(errors="replace") or "closed"


def beside(kind: str, neighbour: list[dict[str, Any]], other: Endpoint, seconds: float) -> dict[str, Any]:
    """The neighbour's figures beside strangers of one kind."""
    context = multiprocessing.get_context("spawn")
    ready, over, told = context.Barrier(3), context.Event(), context.Queue()
    strangers = [context.Process(target=stranger, args=(kind, other, ready, over, told), daemon=True) for _ in range(2)]
    for each in strangers:
        each.start()
    ready.wait(60)
    row = asked(kind, neighbour, seconds)
    over.set()
    answers = sum((told.get(timeout=120) for _ in strangers), Counter[str]())
    for each in strangers:
        each.join(timeout=60)
    return row | {"answered": ", ".join(f"{what} x{count}" for what, count in answers.most_common(3))}


def asked(beside: str, endpoints: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The figures of honest clients."""
    report = ask(kind="closed", endpoints=endpoints, seconds=seconds, warm=0.5, turns=1, stream=False)
    return {
        "beside": beside,
        "turns_per_second": report["rps"],
        "p50_ms": report["p50_ms"],
        "p99_ms": report["p99_ms"],
        "faults": sum(report["faults"].values()),
        "answered": "",
    }


def main() -> int:
    """Alone, beside honest clients, beside each kind of stranger; hand in."""
    given = arguments(__doc__).parse_args()
    seconds = 1.5 if given.quick else 8.0
    before = load()
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="hostile-") as scratch,
        serving() as backend,
        gateway(backend, Path(scratch)) as (_, open_run),
    ):
        own, others = open_run("neighbour"), open_run("strangers")
        neighbour = [asdict(own(f"n{place}")) for place in range(4)]
        rows.append(asked("nobody", neighbour, seconds))
        honest = [asdict(others(f"h{place}")) for place in range(4)]
        rows.append(asked("four honest clients (all eight)", neighbour + honest, seconds))
        for kind in KINDS:
            rows.append(beside(kind, neighbour, others("s"), seconds))
            print(rows[-1], file=sys.stderr)
    worst = max(row["p99_ms"] or float("inf") for row in rows[2:])
    measured = Measurement(
        name="gateway_hostile",
        question="A run of four clients while strangers send bad input in another: how long its turns take",
        bar=f"no fault, p99 under {WORST_MS:g} ms beside each; the ratio is the worst p99 to that beside honest clients",
        ratio=worst / rows[1]["p99_ms"],
        holds=worst < WORST_MS and not any(row["faults"] for row in rows),
        rows=rows,
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
