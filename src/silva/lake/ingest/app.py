"""The wire: where tracers of foreign agents send what they saw.

POST /v1/traces, /v1/logs                  OTLP over HTTP, protobuf or JSON (OTel's exporters)
POST /api/public/otel/v1/traces            the same, by Langfuse's SDK
POST /api/public/scores                    Langfuse's scores of traces
POST /v1/traces/ingest                     OpenAI Agents' exporter
GET  /healthz
GET  /v1/status                            what was kept, refused, put off, and made of it

An answer of 200 says: on disk. 429 and 503 say when to come again. Everything but /healthz wants the token, where there
is one: as `Authorization: Bearer …`, or as the password of Basic (Langfuse's secret key).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec

from silva.errors import MissingError, SilvaError
from silva.lake.entry import Arrival
from silva.lake.ingest.body import Receive, read_body
from silva.lake.ingest.intake import Intake
from silva.lake.ingest.limits import Refused
from silva.lake.ingest.others import take_agents, take_scores
from silva.lake.ingest.otlp import take_json, take_protobuf
from silva.lake.ingest.taken import Taken

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_TRACES = ("/v1/traces", "/api/public/otel/v1/traces")
_PROTOBUF = b"application/x-protobuf"
_JSON = b"application/json"
_encode = msgspec.json.Encoder().encode


class Maker(Protocol):
    """What makes trajectories of arrivals, while the server runs."""

    def saw(self, arrivals: Sequence[Arrival]) -> None:
        """These were kept."""
        ...

    def status(self) -> dict[str, Any]:
        """How far it is."""
        ...

    async def begin(self) -> None:
        """Start, with what an earlier server left."""
        ...

    async def end(self) -> None:
        """Make what can be made of what is there, and stop."""
        ...


class IngestApp:
    """The ASGI application.

    Args:
        intake: opens the lake; called once the server's loop runs.
        maker: makes trajectories of what the intake keeps.
        token: what clients show; "" where none is asked.
        run: the run of all trajectories; "" has one for each service.
        started: called once requests are taken.

    Attributes:
        failure: why it could not start or end.
    """

    def __init__(
        self,
        intake: Callable[[], Intake],
        maker: Callable[[Intake], Maker],
        token: str,
        run: str = "",
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._open, self._maker_of, self._token, self._run, self._started = intake, maker, token, run, started
        self.failure: SilvaError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        try:
            await self._answer(scope, receive, send)
        except Refused as refused:
            self._intake.counts["refused_requests"] += refused.status not in (429, 503)
            await _refuse(send, refused)
        except MissingError as error:
            await _refuse(send, Refused(415, str(error)))
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request could not be answered, by a fault of Silva's own")
            await _refuse(send, Refused(500, "the server failed by a fault of its own"))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._intake = await asyncio.to_thread(self._open)
            self._maker = self._maker_of(self._intake)
            await self._maker.begin()
        except SilvaError as error:
            self.failure = error
            await send({"type": "lifespan.startup.failed"})
            return
        self._started()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            await self._maker.end()
            await self._intake.close()
        except SilvaError as error:
            self.failure = error
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"].rstrip("/")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if path == "/healthz" or path == "/api/public/health":
            await _respond(send, 200, b'{"status":"ok"}')
            return
        self._demand(headers)
        if method == "GET" and path == "/v1/status":
            await _respond(send, 200, _encode(self.status()))
            return
        if method != "POST":
            raise Refused(404, f"there is no {method} {path[:80]}")
        if path in _TRACES:
            await self._otlp(receive, send, headers, logs=False)
        elif path == "/v1/logs":
            await self._otlp(receive, send, headers, logs=True)
        elif path == "/v1/traces/ingest":
            await self._agents(receive, send, headers)
        elif path == "/api/public/scores":
            await self._scores(receive, send, headers)
        else:
            raise Refused(404, f"there is nothing at {path[:80]}; spans go to /v1/traces")

    def status(self) -> dict[str, Any]:
        """What was kept, refused, put off and made since the server started."""
        counts = self._intake.counts
        known = {name: counts[name] for name in ("kept", "refused", "refused_requests", "put_off")}
        return {**known, "failure": self._intake.failure, **self._maker.status()}

    def _demand(self, headers: dict[bytes, bytes]) -> None:
        if not self._token:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"basic":
            try:
                given = base64.b64decode(given.strip(), validate=True).partition(b":")[2]
            except binascii.Error:
                given = b""
        if not hmac.compare_digest(given.strip(), self._token.encode()):
            raise Refused(401, "this needs the server's token: send it as 'Authorization: Bearer …'")

    async def _otlp(self, receive: Receive, send: Send, headers: dict[bytes, bytes], logs: bool) -> None:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind not in (_PROTOBUF, _JSON):
            raise Refused(415, "OTLP comes as application/x-protobuf or application/json")
        take = take_protobuf if kind == _PROTOBUF else take_json
        taken = await self._keep(receive, headers, lambda body, taken: take(body, taken, self._intake.limits, logs))
        name = "rejectedLogRecords" if logs else "rejectedSpans"
        if kind == _JSON:
            told = {"partialSuccess": {name: str(taken.refused), "errorMessage": taken.why}} if taken.refused else {}
            await _respond(send, 200, _encode(told))
            return
        await _respond(send, 200, _partial(taken) if taken.refused else b"", _PROTOBUF)

    async def _agents(self, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        taken = await self._keep(receive, headers, lambda body, taken: take_agents(body, taken, self._intake.limits))
        told = {"kept": len(taken.arrivals), "refused": taken.refused, "why": taken.why}
        await _respond(send, 200 if not taken.refused else 207, _encode(told))

    async def _scores(self, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        told: list[dict[str, Any]] = []
        await self._keep(
            receive, headers, lambda body, taken: told.extend(take_scores(body, taken, self._intake.limits))
        )
        await _respond(send, 202, _encode(told[0] if len(told) == 1 else told))

    async def _keep(
        self, receive: Receive, headers: dict[bytes, bytes], take: Callable[[bytes, Taken], object]
    ) -> Taken:
        """Read a body, take what is in it, return once that is on disk."""
        limits, announced = self._intake.limits, headers.get(b"content-length", b"")
        room = min(int(announced), limits.body) if announced.isdigit() else limits.body
        self._intake.admit(room)
        try:
            body = await read_body(receive, headers, limits)
            taken = Taken(time.time(), self._run)
            take(body, taken)
            kept = await self._intake.keep(taken.arrivals)
        finally:
            self._intake.release(room)
        self._intake.counts["refused"] += taken.refused
        if taken.refused:
            log.warning("%d of %d items are refused: %s", taken.refused, taken.refused + len(kept), taken.why)
        self._maker.saw(kept)
        return taken


def _partial(taken: Taken) -> bytes:
    """ExportTracePartialSuccess: field 1 the number, field 2 why; inside field 1 of the response."""
    number, head = taken.refused, bytearray([8])
    while number > 127:
        head.append(number & 127 | 128)
        number >>= 7
    head.append(number)
    why = taken.why.encode()[:120]
    inner = bytes(head) + bytes([18, len(why)]) + why
    return bytes([10, *([len(inner)] if len(inner) < 128 else [len(inner) & 127 | 128, len(inner) >> 7])]) + inner


async def _refuse(send: Send, refused: Refused) -> None:
    headers: list[tuple[bytes, bytes]] = [(b"connection", b"close")] if refused.status in (401, 408, 413) else []
    if refused.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(refused.retry_after))))
    body = _encode({"error": {"message": str(refused), "code": refused.status}})
    await _respond(send, refused.status, body, _JSON, headers)


async def _respond(
    send: Send, status: int, body: bytes, kind: bytes = _JSON, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    fields = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
