"""Answering: one request of a client, from its bytes to the last byte of the reply.

body ─▶ decode ─▶ continued ─▶ within limits? ─▶ (answered before?) ─▶ let in ─▶ Turn ─▶ JSON, or events as they come
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from silva.errors import StoreError
from silva.models.forgiving import HALVES, whole_characters
from silva.models.gateway.attempts import Answer, Attempt
from silva.models.gateway.dialects.dialect import Asked, Dialect, Malformed
from silva.models.gateway.earlier import continued, pictures
from silva.models.gateway.gateway import Gateway
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.problem import Problem
from silva.models.gateway.reply import Reply
from silva.models.gateway.runs import RunAccount
from silva.models.gateway.session import Session
from silva.models.gateway.spoken import ANTHROPIC
from silva.models.gateway.structure import values
from silva.models.gateway.turn import Turn
from silva.models.model import Completion, Delta
from silva.models.serving.exchange import Exchange
from silva.tree.node import short_digest

RETRIED = b"x-stainless-retry-count"
"""The SDKs of OpenAI and Anthropic count here how often they have sent this very request before."""
IDEMPOTENCY = b"idempotency-key"
PATIENCE = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""How long the SDKs will wait, in seconds."""
BETAS = "anthropic-beta"
"""The header by which clients of Anthropic's API ask for what fields of the body then say."""
LARGE = 256 << 10
"""Bytes from which a body is weighed before it is read."""


class Answering:
    """Answers clients of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limits = gateway.config.limits
        random = Random(secrets.randbits(256))  # asking the system for each id lets other threads in
        self._ids = lambda: f"{random.getrandbits(96):024x}"

    async def answer(
        self, exchange: Exchange, dialect: Dialect, account: RunAccount, rollout: str, tail: str, body: bytes
    ) -> None:
        """Answer one request.

        Raises:
            Problem: nothing of an answer was sent; one that breaks off later says so in its own stream.
        """
        asked = await self._read(exchange, dialect.decode, account, body)
        route = self._gateway.route(asked.model)
        if self._gateway.keeper.failure is not None:
            await self._gateway.keeper.ready()  # before the session is looked up: recovery makes them all anew
        key = exchange.header(IDEMPOTENCY)
        request = _digest(tail, key.encode("latin-1") if key else body)
        reply = Reply(exchange, dialect, asked, self._ids(), route.name if asked.model == "" else asked.model)
        attempt = Attempt(rollout, request, reply.id, _words(tail, asked) if key else "")
        try:
            session = await self._gateway.asked_for(account, rollout)
            if asked.previous:
                asked = reply.asked = await continued(asked, session, self._gateway.keeper)
                self._within(asked)
            seconds = _patience(exchange, route.deadline)
            known = await self._earlier(exchange, account, session, attempt, route.silence, seconds)
            if known is not None:
                exchange.on_leave(lambda: _gone(exchange), route.silence, seconds)
                await self._again(account, session, attempt, reply, known)
                return
            turn = Turn(
                account,
                session,
                route,
                asked,
                request=request,
                reply=reply.id,
                dialect=dialect.name,
                words=attempt.words,
            )
            if betas := exchange.header(BETAS.encode()):
                turn.headers = {BETAS: betas}
            task = asyncio.current_task()
            exchange.on_leave(None if task is None else lambda: _leave(exchange, task, turn), route.silence, seconds)
            await self._anew(exchange, turn, attempt, reply, len(body), seconds)
        finally:
            exchange.on_leave(None)
            if attempt.owes(exchange.left):
                account.owed.add(attempt)

    async def _earlier(
        self,
        exchange: Exchange,
        account: RunAccount,
        session: Session,
        attempt: Attempt,
        silence: float,
        seconds: float,
    ) -> Answer | None:
        """The answer that this request was given before, and that may not have arrived; it is waited for where it is
        being made right now."""
        request, owed = attempt.request, account.owed
        under_way = session.in_flight.get(request)
        if attempt.words:
            if (session.words(request) or attempt.words) != attempt.words:
                raise Problem("conflict", "this Idempotency-Key was used for another request: give each its own key")
            known = session.answered(request)
            if known is None and under_way is not None:
                known = await _joined(session, under_way[-1]) or session.answered(request)
            return known
        if owed and (known := owed.kept(attempt, session.answer)) is not None:
            return known
        if exchange.header(RETRIED) in ("", "0") or owed.take(attempt):
            return None
        if under_way is None:
            return session.answered(request)
        exchange.on_leave(lambda: _gone(exchange), silence, seconds)
        known = await _joined(session, under_way[-1])
        if known is None:  # the one that was joined was left: it may have been on its way to disk
            known = owed.kept(attempt, session.answer)
        if known is None:
            owed.take(attempt)
        return known

    async def _again(
        self, account: RunAccount, session: Session, attempt: Attempt, reply: Reply, known: Answer
    ) -> None:
        """Give an answer again."""
        attempt.reply = known.reply
        await self._settled(account, session, known.reply)
        await reply.whole(known.completion, known.reply, b"repeated")
        attempt.sent = True

    async def _anew(
        self, exchange: Exchange, turn: Turn, attempt: Attempt, reply: Reply, size: int, seconds: float
    ) -> None:
        """Have a request answered that was not answered before."""
        session, asked = turn.session, turn.asked
        session.begin(attempt)
        try:
            try:
                await turn.begin(size, seconds)
                if asked.previous:
                    turn.earlier = await pictures(asked, self._gateway.keeper, self._limits)
            except Problem as problem:
                self._told(exchange, turn, _noted(session, problem))
                raise
            await self._take(exchange, turn, reply, attempt, seconds - turn.waited)
        except asyncio.CancelledError:
            if exchange.left:
                self._told(exchange, turn, None)
            raise
        finally:
            turn.end()
            if turn.broken_off is not None:
                self._gateway.metrics.broken_off(turn.route.name, turn.broken_off)
                self._gateway.note_spent(turn.account)
            session.end(attempt)
            self._gateway.conversations.rest(session)

    async def _take(self, exchange: Exchange, turn: Turn, reply: Reply, attempt: Attempt, seconds: float) -> None:
        """Have a turn that was let in answered, and send the answer."""
        session, route, dialect = turn.session, turn.route, turn.dialect
        keeper, metrics = self._gateway.keeper, self._gateway.metrics
        keeper.batch.at_work += 1
        emit = partial(_piece, reply, turn, keeper) if turn.asked.stream else None
        try:
            completion = await turn.take(keeper, seconds, emit, reply.prepare)
            attempt.answer.set_result(Answer(completion=completion, reply=reply.id))
            session.problem = None
            if not turn.kept:
                attempt.reply = ""
            await reply.rest(completion, b"kept" if turn.kept else b"lost", turn.left_out)
            attempt.sent = turn.kept
            turn.settle()
            self._told(exchange, turn, completion)
            metrics.answered(dialect, route.name, completion, time.perf_counter() - turn.began, turn.waited)
        except Problem as problem:
            attempt.reply = ""
            self._told(exchange, turn, _noted(session, problem))
            if not exchange.started:
                raise
            metrics.refused(dialect, problem.kind)
            await reply.broken(problem)
        finally:
            turn.settle()
            keeper.batch.at_work -= 1

    async def _settled(self, account: RunAccount, session: Session, reply: str) -> None:
        """Return once the turn of an answer that is given again is on disk: whoever asked first may have left while it
        was being written. The journal keeps order, so what is sent after it arrives after it."""
        if reply not in session.settling:
            return
        keeper = self._gateway.keeper
        try:
            await keeper.keep([])
            session.settling.discard(reply)
        except StoreError as error:
            if account.terms.capture == "strict":
                raise Problem("store", f"the reply could not be kept, so it is withheld: {error}") from error

    def _told(self, exchange: Exchange, turn: Turn, outcome: Completion | Problem | None) -> None:
        spans = self._gateway.spans
        if spans is not None:
            now, passed = time.time(), time.perf_counter() - turn.began
            traceparent = exchange.header(b"traceparent")
            spans.turn(turn.asked, turn.session, outcome, turn.reply, now - passed, now, traceparent)

    async def count(self, exchange: Exchange, account: RunAccount, body: bytes) -> bytes:
        """How many tokens a conversation has for a model: exactly where its tokenizer is here.

        Raises:
            Problem: the body is malformed, the model unknown, or its tokenizer not here.
        """
        asked = await self._read(exchange, ANTHROPIC.decode_count, account, body)
        return msgspec.json.encode(
            {"input_tokens": self._gateway.route(asked.model).count(asked.messages, asked.tools)}
        )

    async def _read(
        self, exchange: Exchange, decode: Callable[[bytes], Asked], account: RunAccount, body: bytes
    ) -> Asked:
        """Read a body. Large ones of one run are read one after another, and others have the loop for as long as each
        took; who hung up before is not read at all."""
        if len(body) <= LARGE:
            exchange.release()
            return self._decoded(decode, body)
        task = asyncio.current_task()
        exchange.on_leave(None if task is None else lambda: _leave(exchange, task))
        try:
            async with account.large:
                await self._weighed(body)
                began = time.perf_counter()
                try:
                    return self._decoded(decode, body)
                finally:
                    exchange.release()
                    await asyncio.sleep(time.perf_counter() - began)
        finally:
            exchange.release()
            exchange.on_leave(None)

    async def _weighed(self, body: bytes) -> None:
        most = self._limits.values
        if await asyncio.to_thread(values, body, most) > most:
            raise Problem("too_large", f"the body holds more than {most} values; this gateway takes no more")

    def _decoded(self, decode: Callable[[bytes], Asked], body: bytes) -> Asked:
        try:
            asked = decode(body)
        except Malformed as error:
            mended, count = whole_characters(body)
            if not count:
                raise Problem("malformed", str(error), error.field) from error
            asked = self._decoded(decode, mended)
            return msgspec.structs.replace(asked, left_out=(*asked.left_out, HALVES))
        self._within(asked)
        return asked

    def _within(self, asked: Asked) -> None:
        limits = self._limits
        if len(asked.messages) > limits.messages:
            what = f"{len(asked.messages)} messages; this gateway takes {limits.messages}"
            raise Problem("too_large", f"the conversation has {what}", "messages")
        if len(asked.tools) > limits.tools:
            raise Problem("too_large", f"{len(asked.tools)} tools; this gateway takes {limits.tools}", "tools")


async def _joined(session: Session, under_way: Attempt) -> Answer | None:
    """The answer of the same request that is being made right now, with all that was recorded."""
    known = await under_way.join()
    return None if known is None else session.answer(known.reply) or known


async def _piece(reply: Reply, turn: Turn, keeper: Keeper, delta: Delta) -> None:
    await reply.piece(delta, b"lost" if not reply.began and turn.is_lost(keeper) else b"streamed", turn.left_out)


def _leave(exchange: Exchange, task: asyncio.Task[object], turn: Turn | None = None) -> None:
    """The client hung up: stop reading, or asking. A turn that is kept already, or on its way to disk, will be given to
    a client that asks the same again."""
    exchange.left = True
    if turn is None or not turn.kept:
        task.cancel()


def _gone(exchange: Exchange) -> None:
    """The client of an answer that is given again hung up."""
    exchange.left = True


def _noted(session: Session, problem: Problem) -> Problem:
    """The rollout was told this last: whoever judges why its program broke will want to know."""
    session.problem = problem.copy()
    return problem


def _digest(tail: str, body: bytes) -> str:
    return short_digest(b"%b\n%b" % (tail.encode(), body), 12)


def _words(tail: str, asked: Asked) -> str:
    """What a request under a key asks for, however it is written and whatever of the answer it wants to see."""
    sampling = msgspec.structs.replace(asked.sampling, logprobs=False)
    return _digest(tail, repr((asked.model, asked.previous, asked.messages, asked.tools, sampling)).encode())


def _patience(exchange: Exchange, most: float) -> float:
    for name in PATIENCE:
        given = exchange.header(name)
        if not given:
            continue
        try:
            asked = float(given)
        except ValueError:
            continue
        if asked > 0:
            return min(most, asked)
    return most
