"""The routes of a chat server as a raw ASGI application: `/v1/chat/completions`, `/v1/models`, `/healthz`.

Written on ASGI alone because the scripted server must answer thousands of calls a second on one core.
"""

from __future__ import annotations

import hmac

import msgspec

from silva.models.failure import UNREADABLE
from silva.models.serving.chat import ChatRequest
from silva.models.serving.exchange import Exchange, Receive, Refusal, Scope, Send
from silva.tree import Json

_decode = msgspec.json.Decoder(ChatRequest).decode


class ChatApp:
    """A chat server without its replies: subclasses give `chat`, and may have more models and more routes.

    Args:
        model: the name it serves.
        token: what clients must present as bearer token, or None for anyone.
    """

    def __init__(self, model: str, token: str | None = None) -> None:
        self.model = model
        self._bearer = None if token is None else f"Bearer {token}".encode()

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        """Answer one chat completion on the exchange; raise Refusal for an HTTP error."""
        raise TypeError(f"{type(self).__name__} does not say how to chat")

    async def elsewhere(self, path: str, method: str, exchange: Exchange) -> None:
        """Answer a route that is not everyone's."""
        raise Refusal(404, f"there is nothing at {path}: this server has /v1/chat/completions and /v1/models")

    def models(self) -> list[Json]:
        """The entries of `/v1/models`."""
        return [{"id": self.model, "object": "model", "created": 0, "owned_by": "silva"}]

    def serves(self, model: str) -> bool:
        """Whether a request may name this model; its own name is not asked for."""
        return False

    async def started(self) -> None:
        """Called once the server's loop runs, before the first request."""

    async def stopped(self) -> None:
        """Called when the server has answered its last request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        exchange = Exchange(scope, receive, send)
        try:
            await self._route(exchange)
        except Refusal as refusal:
            if exchange.started:
                await exchange.abort()
            else:
                await exchange.refuse(refusal)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.started()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stopped()
        await send({"type": "lifespan.shutdown.complete"})

    async def _route(self, exchange: Exchange) -> None:
        path, method = exchange.scope["path"], exchange.scope["method"]
        if path == "/healthz":
            await exchange.send(200, b'{"status":"ok"}')
            return
        if self._bearer is not None and not self._admits(exchange):
            raise Refusal(401, "a token is needed: send it as 'Authorization: Bearer …'", "invalid_api_key")
        if path == "/v1/chat/completions":
            if method != "POST":
                raise Refusal(405, f"{method} is not allowed here: use POST")
            await self.chat(await self._request(exchange), exchange)
        elif path == "/v1/models":
            await exchange.send(200, msgspec.json.encode({"object": "list", "data": self.models()}))
        else:
            await self.elsewhere(path, method, exchange)

    def _admits(self, exchange: Exchange) -> bool:
        given = exchange.header(b"authorization").encode("latin-1")
        return self._bearer is not None and hmac.compare_digest(given, self._bearer)

    async def _request(self, exchange: Exchange) -> ChatRequest:
        try:
            request = _decode(await exchange.body())
        except UNREADABLE as fault:
            raise Refusal(400, f"the request is not a chat completion: {fault}") from fault
        if not request.messages:
            raise Refusal(400, "the request has no messages")
        if request.n not in (None, 1):
            raise Refusal(400, "n must be 1: ask several times for several replies")
        if request.model not in ("", self.model) and not self.serves(request.model):
            names = ", ".join(repr(entry["id"]) for entry in self.models())
            raise Refusal(404, f"there is no model {request.model!r} here, only {names}", "model_not_found")
        return request
