"""Bounds: Silva's own server and client in one process, with as little between them as can be.

    forward           passes request and reply on unread
    forward-json      reads both into Python objects first and encodes messages, ids and log-probabilities, as one that keeps them does
    forward-journal   and has these on disk before it answers, by Silva's own journal

    python -m gateway_peers.forward URL forward-journal FOLDER

None knows runs, dialects, conversations, ids, versions or budgets. What they add is what machine, wire and disk cost.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from gateway_load import Endpoint

from gateway_peers.gateway import PATIENCE, Kept, Running, process, wait_until
from silva import __version__


class Forward:
    """One process between the clients and the backend. `name`: which of the bounds it is."""

    version = __version__
    streams = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.durable = "a bound: on disk, but no turns" if name == "forward-journal" else "a bound: keeps nothing"

    def install(self, folder: Path) -> None:
        """Nothing to build: it runs in this interpreter's environment."""

    def missing(self, folder: Path) -> str | None:
        """It is always there."""
        return None

    @contextlib.contextmanager
    def start(self, backend: str, scratch: Path) -> Iterator[Running]:
        """Start it on a free port."""
        words = [sys.executable, "-m", __name__, backend, self.name, str(scratch / "journal")]
        log = scratch / "gateway.log"
        environment = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        with process(words, scratch, environment=environment) as started:
            wait_until(lambda: b"\n" in log.read_bytes() or started.poll() is not None, PATIENCE)
            url = log.read_text().strip()
            if not url.startswith("http"):
                raise RuntimeError(f"{self.name} did not start: {url[-800:]}")
            yield Running(started.pid, lambda count: [Endpoint(url)] * count, lambda wanted: Kept(0, 0, self.durable))


class _LogProb(msgspec.Struct, gc=False):
    logprob: float


class _LogProbs(msgspec.Struct, gc=False):
    content: tuple[_LogProb, ...]


class _Said(msgspec.Struct, gc=False):
    content: str


class _Choice(msgspec.Struct, gc=False):
    message: _Said
    logprobs: _LogProbs
    token_ids: tuple[int, ...]


class _Reply(msgspec.Struct, gc=False):
    choices: tuple[_Choice, ...]
    prompt_token_ids: tuple[int, ...]


_reply = msgspec.json.Decoder(_Reply).decode


def _kept(asked: Any, reply: _Reply) -> bytes:
    choice = reply.choices[0]
    logprobs = [entry.logprob for entry in choice.logprobs.content]
    said = (asked["messages"], choice.message.content)
    return msgspec.msgpack.encode((*said, reply.prompt_token_ids, choice.token_ids, logprobs))


def main(backend: str, name: str, folder: Path) -> None:
    """Serve until told to stop; prints its base URL first."""
    from yarl import URL

    from silva.collecting import collect_seldom
    from silva.lake.frames import parts
    from silva.lake.journal import Journal
    from silva.models.gateway.batch import Batch
    from silva.models.gateway.serve import SWITCH_SECONDS, WINDOW_MS
    from silva.models.plain import Plain
    from silva.models.serving.exchange import Exchange, Receive, Scope, Send
    from silva.models.serving.server import bind, serve_forever, url_of

    client = Plain(URL(f"{backend}/v1/chat/completions"))
    collect_seldom()
    sys.setswitchinterval(SWITCH_SECONDS)
    reads, batch = name != "forward", None
    if name == "forward-journal":
        journal = Journal(folder, where=name, number=1, window=WINDOW_MS)
        batch = Batch(
            lambda records, at_once, meanwhile: journal.submit(parts(records), at_once=at_once, meanwhile=meanwhile)
        )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        exchange = Exchange(scope, receive, send)
        body = await exchange.body()
        asked = msgspec.json.decode(body) if reads else None
        if batch is not None:
            batch.at_work += 1
        response = await client.post(body, {"content-type": "application/json"})
        data = await response.read()
        response.close()
        if reads:
            kept = _kept(asked, _reply(data))  # a reply with a name would fill the processor's cache during the wait
            if batch is not None:
                await batch.add([kept])
                batch.at_work -= 1
        await exchange.send(response.status, data)

    listening = bind("127.0.0.1", 0)
    print(url_of(listening), flush=True)
    serve_forever(application, listening, lambda _: None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
