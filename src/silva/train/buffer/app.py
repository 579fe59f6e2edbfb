"""The buffer's wire. A job's routes want its token, or the admin token; opening one wants the admin token.

GET  /healthz
GET  /v1/jobs                     names                      admin
POST /v1/jobs                     {job, terms} ─▶ {job, token, status}   admin
GET  /v1/jobs/JOB                 Status
POST /v1/jobs/JOB/start           {ids, wait} ─▶ Admission, or 429 with Retry-After
POST /v1/jobs/JOB/abandon         {ids}
POST /v1/jobs/JOB/groups          a Group (msgpack) ─▶ Receipt, or 429
GET  /v1/jobs/JOB/groups?id=…     a Group (msgpack)
POST /v1/jobs/JOB/take            {after, count, wait} ─▶ Deliveries (msgpack)
POST /v1/jobs/JOB/commit          {cursor, version, checkpointed} ─▶ Status
POST /v1/jobs/JOB/rewind          {cursor, version} ─▶ Status
GET  /v1/jobs/JOB/withheld?after=0&most=100

A job has its own journal, its own share of uploads and of waiting calls; nothing is read of a request without a token.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from pydantic import ValidationError

from silva.errors import SilvaError, StoreError
from silva.models.serving.exchange import Exchange, Receive, Refusal, Scope, Send
from silva.train.buffer.config import JobConfig, Limits
from silva.train.buffer.group import Group
from silva.train.buffer.job import Job
from silva.train.buffer.jobs import Jobs
from silva.train.buffer.refused import Refused

log = logging.getLogger(__name__)

LARGEST = 1 << 20
"""Bytes of a body that is no group."""
MSGPACK = b"application/vnd.msgpack"
_encode = msgspec.msgpack.Encoder().encode
_decode_group = msgspec.msgpack.Decoder(Group).decode


class OpenJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of opening a job."""

    job: str
    terms: dict[str, Any] = {}


class Ids(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of start and abandon."""

    ids: tuple[str, ...]
    wait: float = 0.0


class Take(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a take."""

    after: int
    count: int
    wait: float = 0.0


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a commit."""

    cursor: int
    version: int | None = None
    checkpointed: int | None = None


class Rewind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a rewind."""

    cursor: int
    version: int


Body = TypeVar("Body", bound=msgspec.Struct)


class BufferApp:
    """The ASGI application.

    Args:
        jobs: opens the folder; called once the server's loop runs.
        admin_token: what opens jobs.
        limits: what clients may ask.
        terms: jobs to open at the start.
        started: called once these are open.
    """

    def __init__(
        self,
        jobs: Callable[[], Jobs],
        admin_token: str,
        limits: Limits,
        terms: dict[str, JobConfig],
        started: Callable[[Jobs], None] = lambda jobs: None,
    ) -> None:
        self._opener, self._admin_token, self._limits, self._terms = jobs, admin_token, limits, terms
        self._started = started
        self._uploads: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self.failure: SilvaError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        exchange = Exchange(scope, receive, send)
        try:
            await self._route(exchange)
        except Refused as refused:
            await self._refuse(exchange, refused)
        except Refusal as refusal:
            await self._refuse(exchange, Refused("too_large", str(refusal)))
        except StoreError as error:
            await self._refuse(exchange, Refused("store", str(error), 1.0))
        except TimeoutError:
            await self._refuse(exchange, Refused("malformed", "the body did not come in time"))
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request could not be answered, by a fault of Silva's own")
            await self._refuse(exchange, Refused("fault", "the buffer failed by a fault of its own"))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._jobs = self._opener()
            try:
                for name, terms in self._terms.items():
                    self._jobs.open(name, terms)
                self._started(self._jobs)
            except BaseException:
                await self._jobs.close()
                raise
        except SilvaError as error:  # uvicorn ends; whoever runs it tells the reason in one line
            self.failure = error
            await send({"type": "lifespan.startup.failed"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._jobs.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _route(self, exchange: Exchange) -> None:
        method, path = exchange.scope["method"], exchange.scope["path"]
        if path == "/healthz":
            await exchange.send(200, b'{"status":"ok"}')
            return
        parts = path.split("/")[1:]
        if parts[:2] != ["v1", "jobs"]:
            raise Refused("not_found", f"there is nothing at {path[:80]}")
        match method, parts[2:]:
            case "GET", []:
                self._demand_admin(exchange)
                await _json(exchange, {"jobs": self._jobs.names})
            case "POST", []:
                self._demand_admin(exchange)
                await self._open(exchange)
            case _, [name, *rest] if len(rest) < 2:
                await self._job(exchange, method, self._admitted(exchange, name), "".join(rest))
            case _:
                raise Refused("not_found", f"there is no {method} {path[:80]}")

    async def _job(self, exchange: Exchange, method: str, job: Job, what: str) -> None:
        match method, what:
            case "GET", "":
                await _json(exchange, await job.status())
            case "POST", "start":
                asked = await self._body(exchange, Ids)
                admission = await self._wait(job, asked.wait, lambda wait: job.start(asked.ids, wait=wait))
                if not admission.admitted and not admission.known:
                    raise Refused("full", f"job {job.name}: as many groups are under way as its bound allows", 1.0)
                await _json(exchange, admission)
            case "POST", "abandon":
                await _json(exchange, {"abandoned": await job.abandon((await self._body(exchange, Ids)).ids)})
            case "POST", "groups":
                await _json(exchange, await self._put(exchange, job))
            case "GET", "groups":
                await exchange.send(200, _encode(await job.read(_asked(exchange, "id", ""))), MSGPACK)
            case "POST", "take":
                take = await self._body(exchange, Take)
                found = await self._wait(job, take.wait, lambda wait: job.take(take.after, take.count, wait=wait))
                await exchange.send(200, _encode(found), MSGPACK)
            case "POST", "commit":
                commit = await self._body(exchange, Commit)
                done = await job.commit(commit.cursor, commit.version, checkpointed=commit.checkpointed)
                await _json(exchange, done)
            case "POST", "rewind":
                rewind = await self._body(exchange, Rewind)
                await _json(exchange, await job.rewind(rewind.cursor, rewind.version))
            case "GET", "withheld":
                after, most = _number(exchange, "after", 0), _number(exchange, "most", 100)
                await _json(exchange, {"withheld": await job.withheld(after, most)})
            case _:
                raise Refused("not_found", f"there is no {method} of {what[:40]!r} here")

    async def _open(self, exchange: Exchange) -> None:
        asked = await self._body(exchange, OpenJob)
        try:
            terms = JobConfig.model_validate(asked.terms)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            said = ": ".join(filter(None, ("terms", field, first["msg"].removeprefix("Value error, "))))
            raise Refused("malformed", f"job {asked.job[:60]}: {said}".replace("\n", " ")) from error
        job = self._jobs.open(asked.job, terms)
        body = {"job": job.name, "token": self._jobs.token(job.name), "status": await job.status()}
        await _json(exchange, body, 201)

    async def _put(self, exchange: Exchange, job: Job) -> object:
        if self._uploads[job.name] >= self._limits.uploads:
            raise Refused("busy", f"job {job.name}: {self._limits.uploads} groups are being brought; try again", 1.0)
        self._uploads[job.name] += 1
        try:
            data = await self._bytes(exchange, int(self._limits.body_mb * (1 << 20)))
            try:
                group = await asyncio.to_thread(_decode_group, data) if len(data) > LARGEST else _decode_group(data)
            except (msgspec.DecodeError, RecursionError) as error:
                raise Refused("malformed", f"the body is no group: {error}".replace("\n", " ")) from error
            return await job.put(group)
        finally:
            self._uploads[job.name] -= 1

    async def _wait(self, job: Job, wait: float, call: Callable[[float], Awaitable[Any]]) -> Any:
        if not 0 <= wait <= 1e9:
            raise Refused("malformed", f"wait is {wait}: give seconds")
        wait = min(wait, self._limits.wait_seconds)
        if not wait:
            return await call(0.0)
        if self._waiting[job.name] >= self._limits.waiting:
            raise Refused("busy", f"job {job.name}: {self._limits.waiting} calls are waiting; try again", 1.0)
        self._waiting[job.name] += 1
        try:
            return await call(wait)
        finally:
            self._waiting[job.name] -= 1

    async def _body(self, exchange: Exchange, kind: type[Body]) -> Body:
        data = await self._bytes(exchange, LARGEST)
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refused("malformed", f"the body: {error}".replace("\n", " ")) from error

    async def _bytes(self, exchange: Exchange, largest: int) -> bytes:
        async with asyncio.timeout(self._limits.body_seconds):
            return await exchange.body(largest)

    def _demand_admin(self, exchange: Exchange) -> None:
        if not _is(exchange.bearer(), self._admin_token):
            raise Refused("auth", "this needs the admin token: send it as 'Authorization: Bearer …'")

    def _admitted(self, exchange: Exchange, name: str) -> Job:
        given = exchange.bearer()
        if not (_is(given, self._jobs.token(name)) or _is(given, self._admin_token)):
            raise Refused("auth", "this needs the job's token: send it as 'Authorization: Bearer …'")
        return self._jobs.get(name)

    async def _refuse(self, exchange: Exchange, refused: Refused) -> None:
        unread = refused.kind in ("auth", "too_large", "busy")
        await exchange.refuse_kind(
            refused.status, refused.kind, str(refused), retry_after=refused.retry_after, unread=unread
        )


async def _json(exchange: Exchange, body: object, status: int = 200) -> None:
    await exchange.send(status, msgspec.json.encode(body))


def _is(given: bytes, token: str) -> bool:
    return hmac.compare_digest(given, token.encode("utf-8", "surrogatepass"))


def _asked(exchange: Exchange, name: str, default: str) -> str:
    query = exchange.scope["query_string"].decode("latin-1")
    try:
        return parse_qs(query, max_num_fields=10).get(name, [default])[0]
    except ValueError as error:
        raise Refused("malformed", "the query has too many fields") from error


def _number(exchange: Exchange, name: str, default: int) -> int:
    text = _asked(exchange, name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Refused("malformed", f"{name} is {text[:40]!r}: give a number from 0")
    return int(text)
