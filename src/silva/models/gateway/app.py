"""The gateway's wire: which URL means what, who may use it, and how an answer leaves.

/r/RUN/ROLLOUT/v1/chat/completions   OpenAI Chat Completions   (also /r/RUN/v1/…, and /v1/… by the token alone)
/r/RUN/ROLLOUT/v1/responses          OpenAI Responses
/r/RUN/ROLLOUT/v1/messages           Anthropic Messages        (and …/messages/count_tokens)
/r/RUN/ROLLOUT/v1/models             what can be asked for
/admin/…                             runs, rollouts, versions; by the admin token
/healthz /readyz /metrics /openapi.json
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from silva.errors import SilvaError
from silva.models.gateway.admin import Admin
from silva.models.gateway.answer import Answering
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.gateway.gateway import DEFAULT_ROLLOUT, Gateway
from silva.models.gateway.openapi import document
from silva.models.gateway.problem import Problem
from silva.models.gateway.roster import ROUTES
from silva.models.gateway.runs import RunAccount
from silva.models.gateway.spoken import ANTHROPIC, CHAT, SPOKEN
from silva.models.serving.bounds import Bounds, Room
from silva.models.serving.exchange import Exchange, Receive, Refusal, Scope, Send
from silva.tree import Json

log = logging.getLogger(__name__)

SESSION = b"x-session-id"


class Address(NamedTuple):
    """Where a request goes: the run and rollout of its URL ("" where it names none), and what comes after."""

    run: str
    rollout: str
    tail: str


def address(path: str) -> Address:
    """Read a URL's path."""
    parts = path.split("/")
    run = rollout = ""
    rest = parts[1:]
    if len(parts) > 2 and parts[1] == "r":
        run, rest = parts[2], parts[3:]
        if rest and rest[0] not in ROUTES:
            rollout, rest = rest[0], rest[1:]
    if rest and rest[0] == "v1":
        rest = rest[1:]
    return Address(run, rollout, "/".join(rest))


class GatewayApp:
    """The ASGI application.

    Args:
        gateway: what it serves.
        admin_token: what admin routes demand.
        started: called (and awaited) once the gateway is ready, before the first request.
    """

    def __init__(
        self,
        gateway: Gateway,
        admin_token: str,
        *,
        started: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        self.gateway = gateway
        self.answering = Answering(gateway)
        self._admin = Admin(gateway, admin_token)
        self._started = started
        self.failure: SilvaError | Problem | None = None
        limits = gateway.config.limits
        self.bounds = Bounds(
            connections=limits.connections, head=int(limits.head_kb * 1024), seconds=limits.arrival_seconds
        )
        self._room = Room(int(limits.bodies_mb * 1024 * 1024))
        self._largest = min(int(limits.body_mb * 1024 * 1024), self._room.most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        exchange = Exchange(scope, receive, send)
        path: str = scope["path"]
        if path.startswith("/admin/"):
            await self._admin.handle(exchange, path)
        elif path in _OWN:
            await self._own(exchange, path)
        else:
            await self._model(exchange, address(path))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.gateway.start()
            if self._started is not None:
                done = self._started()
                if done is not None:
                    await done
        except (SilvaError, Problem) as error:  # uvicorn ends; whoever runs it tells the reason in one line
            self.failure = error
            await self.gateway.routes.stop()
            await send({"type": "lifespan.startup.failed"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.gateway.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _own(self, exchange: Exchange, path: str) -> None:
        if path == "/healthz":
            await exchange.send(200, b'{"status":"ok"}')
        elif path == "/readyz":
            trouble = await self.gateway.trouble()
            body = msgspec.json.encode({"status": "not ready" if trouble else "ok", "trouble": trouble})
            await exchange.send(503 if trouble else 200, body)
        elif path == "/metrics":
            body, kind = self.gateway.metrics.page()
            await exchange.send(200, body, kind.encode())
        else:
            await exchange.send(200, document())

    async def _model(self, exchange: Exchange, where: Address) -> None:
        tail = where.tail
        dialect = SPOKEN.get(tail.removesuffix("/count_tokens"))
        if dialect is None:
            dialect = ANTHROPIC if exchange.header(b"anthropic-version") else CHAT
        account: RunAccount | None = None
        try:
            account, rollout = await self.gateway.admitted(where.run, where.rollout, token_of(exchange))
            account.is_open()
            rollout = rollout or exchange.header(SESSION) or DEFAULT_ROLLOUT
            method = exchange.scope["method"]
            if tail in SPOKEN or tail == "messages/count_tokens":
                if method != "POST":
                    raise Problem("not_found", f"{method} is not answered here: use POST")
                body = await self._body(exchange)
                if tail == "messages/count_tokens":
                    await exchange.send(200, await self.answering.count(exchange, account, body))
                else:
                    await self.answering.answer(exchange, dialect, account, rollout, tail, body)
            elif method == "GET" and (tail == "models" or tail.startswith("models/")):
                await exchange.send(200, self._models(dialect, tail.removeprefix("models").lstrip("/")))
            else:
                raise Problem("not_found", f"there is nothing at {exchange.scope['path']}: see /openapi.json")
        except Problem as problem:
            if account is not None:
                account.refused += 1
            self.gateway.metrics.refused(dialect.name, problem.kind)
            await refuse(exchange, dialect, problem)
        except asyncio.CancelledError:
            if not exchange.left:
                raise
        except Exception:
            log.exception("a request could not be answered, by a fault of Silva's own")
            if exchange.started:
                await exchange.abort()
            else:
                await refuse(exchange, dialect, Problem("upstream", "the gateway failed by a fault of its own"))

    async def _body(self, exchange: Exchange) -> bytes:
        try:
            return await exchange.body(self._largest, self._room)
        except Refusal as refusal:
            kind = {400: "malformed", 429: "rate_limit"}.get(refusal.status, "too_large")
            raise Problem(kind, str(refusal), retry_after=refusal.retry_after) from refusal

    def _models(self, dialect: Dialect, name: str) -> bytes:
        if name:
            self.gateway.route(name)
            return msgspec.json.encode(_listed(name, dialect))
        names = self.gateway.routes.names
        entries = [_listed(each, dialect) for each in names]
        if dialect is ANTHROPIC:
            ends: Json = {"has_more": False, "first_id": names[0] if names else None}
            return msgspec.json.encode({"data": entries, **ends, "last_id": names[-1] if names else None})
        return msgspec.json.encode({"object": "list", "data": entries})


_OWN = frozenset({"/healthz", "/readyz", "/metrics", "/openapi.json"})


def _listed(name: str, dialect: Dialect) -> Json:
    if dialect is ANTHROPIC:
        return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": "silva"}


def token_of(exchange: Exchange) -> str:
    """The token a client presents, in either of the two usual headers."""
    scheme, _, given = exchange.header(b"authorization").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else exchange.header(b"x-api-key")


async def refuse(exchange: Exchange, dialect: Dialect, problem: Problem) -> None:
    """Answer with an error as this dialect writes it; where an answer has begun, the caller breaks it off."""
    headers: list[tuple[bytes, bytes]] = [(b"x-request-id", secrets.token_hex(8).encode())]
    if problem.retry_after is not None or problem.kind in ("rate_limit", "overloaded", "store"):
        headers.append((b"retry-after", b"%d" % math.ceil(max(1.0, problem.retry_after or 1.0))))
    if exchange.unread or problem.kind == "too_large":
        headers.append((b"connection", b"close"))
    body = dialect.error(problem.status, problem.kind, str(problem), problem.field)
    await exchange.send(problem.status, body, headers=tuple(headers))
