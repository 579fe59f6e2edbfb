"""A reply: one answer on its way out, whole or piece by piece, in the client's dialect.

Completion ─▶ prepared (while the disk is at work) ─▶ sent, with the headers that say what was captured and left out
Delta ─▶ events, which begin with the first of them ─▶ the rest, and the end; or an error where they break off
"""

from __future__ import annotations

import time
from contextlib import suppress
from urllib.parse import quote

import msgspec

from silva.models.gateway.dialects.dialect import Asked, Dialect, Events, Stamp
from silva.models.gateway.problem import Problem
from silva.models.model import Completion, Delta
from silva.models.serving.exchange import Exchange

CAPTURE = b"x-silva-capture"
LOST = b": x-silva-capture: lost\n\n"
"""Said in a stream that began before it was known; a comment, which readers of events pass over."""
LEFT_OUT = b"x-silva-left-out"
"""The header that names what of a request the model's API has no word for."""
LONGEST_LEFT_OUT = 2000
"""Characters of it."""


class Reply:
    """One answer on its way out."""

    def __init__(self, exchange: Exchange, dialect: Dialect, asked: Asked, reply: str, model: str) -> None:
        self.id = reply
        self.asked = asked
        self._exchange = exchange
        self._dialect = dialect
        self._capture = b""
        self._stamp = Stamp(id=reply, created=int(time.time()), model=model)
        self._events: Events | None = None
        self._body: bytes | None = None

    def prepare(self, completion: Completion) -> None:
        """Write the reply, to be sent by `rest` once it may go out."""
        if not self.asked.stream:
            with suppress(Exception):  # `rest` meets it again, when the turn is kept and known to be
                self._body = self._dialect.encode(self.asked, completion, self._stamp)

    @property
    def began(self) -> bool:
        """Whether a piece of it was sent."""
        return self._events is not None

    async def piece(self, delta: Delta, capture: bytes, left_out: tuple[str, ...] = ()) -> None:
        """Send a piece; the first has `capture` in its headers, and the names of what was left out."""
        events = self._events or await self._begin(capture, left_out)
        data = events.delta(delta)
        if data:
            await self._exchange.event(data)

    async def rest(self, completion: Completion, capture: bytes, left_out: tuple[str, ...] = ()) -> None:
        """Send what is left of it, and its end."""
        if self.asked.stream:
            events = self._events or await self._begin(capture, left_out)
            if capture == b"lost" != self._capture:
                await self._exchange.event(LOST)
            await self._exchange.event(events.end(completion))
            await self._exchange.end()
        else:
            body = self._body or self._dialect.encode(self.asked, completion, self._stamp)
            await self._exchange.send(200, body, headers=self._headers(capture, left_out))

    async def whole(self, completion: Completion, reply: str, capture: bytes) -> None:
        """Send an answer that was given before, under its own id."""
        self.id = reply or self.id
        self._stamp = msgspec.structs.replace(self._stamp, id=self.id)
        await self.rest(completion, capture)

    async def broken(self, problem: Problem) -> None:
        """Break off a stream with an error."""
        if self._events is not None:
            await self._exchange.event(self._events.error(problem.status, problem.kind, str(problem)))
        await self._exchange.end()

    def _headers(self, capture: bytes, left_out: tuple[str, ...]) -> tuple[tuple[bytes, bytes], ...]:
        found = ((b"x-request-id", self.id.encode()), (CAPTURE, capture))
        if not left_out:
            return found
        names = quote(", ".join(left_out)[:LONGEST_LEFT_OUT], safe=" ,.[]_-/:+")
        return (*found, (LEFT_OUT, names.encode()))

    async def _begin(self, capture: bytes, left_out: tuple[str, ...]) -> Events:
        self._capture = capture
        self._events = events = self._dialect.events(self.asked, self._stamp)
        await self._exchange.begin_events(self._headers(capture, left_out))
        data = events.begin()
        if data:
            await self._exchange.event(data)
        return events
