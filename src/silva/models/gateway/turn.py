"""One turn through the gateway, from what was asked to a reply that is on disk.

Asked ─▶ begin: a turn of the rollout, a stake in the run's budget (in line where others have it) ─▶ … ─▶ end
   └─▶ take: place on the tree ─▶ lease a backend ─▶ model (again on another, while nothing was streamed)
             ─▶ charged ─▶ nodes ─▶ durable ─▶ Completion
             └ broken off ─▶ charged by estimate
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from silva.errors import StoreError
from silva.models.call_ids import renamed
from silva.models.errors import ModelError
from silva.models.gateway.allowance import Allowance
from silva.models.gateway.dialects.dialect import Asked
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.keys import Key
from silva.models.gateway.place import Place
from silva.models.gateway.problem import Problem, of_model
from silva.models.gateway.relay import Emit, Relay
from silva.models.gateway.routes import RouteState
from silva.models.gateway.routing.lease import Lease
from silva.models.gateway.routing.refused import Refused
from silva.models.gateway.runs import RunAccount
from silva.models.gateway.session import Session
from silva.models.gateway.stake import NO_STAKE, Stake, broken_off, stake_of, used
from silva.models.gateway.upstream import Upstream
from silva.models.model import Completion, Request
from silva.redact import redact
from silva.tree import NO_USAGE, SchemaError, Usage, encode

Ready = Callable[[Completion], None]
"""Told of a completion while it is on its way to disk, so that what is left to do with it is done meanwhile."""


class Turn:
    """A turn in the making. `request` is the digest of what was asked (of its key where it has one, and then `words`
    that of what was asked), `reply` the id its reply will have, `dialect` its API; `earlier` are the bytes of pictures
    that the conversation holds and the request did not bring along; `broken_off`: what was booked by estimate for
    models that were asked and did not come to their end; `headers` go with the request where the backend speaks the
    client's API; `left_out` names what the backend could not be told."""

    def __init__(
        self,
        account: RunAccount,
        session: Session,
        route: RouteState,
        asked: Asked,
        *,
        request: str,
        reply: str,
        dialect: str,
        words: str = "",
    ) -> None:
        self.account = account
        self.session = session
        self.route = route
        self.asked = asked
        self.request = request
        self.reply = reply
        self.dialect = dialect
        self.words = words
        self.earlier: dict[str, bytes] = {}
        self.began = time.perf_counter()
        self.kept = False
        self.waited = 0.0
        self.backend = ""
        self.broken_off: Usage | None = None
        self.headers: dict[str, str] = {}
        self.left_out = asked.left_out
        self._size = 0
        self._relay = Relay(None, None)
        self._estimated = False
        self._within: list[Allowance] = []
        self._stake: Stake | None = NO_STAKE
        self._rest: Callable[[], None] | None = None

    async def begin(self, size: int, seconds: float) -> None:
        """Have it let in; `end` it in any case.

        Args:
            size: how many bytes the request has.
            seconds: how long it may wait for others to be settled.

        Raises:
            Problem: the rollout has taken its turns or used its tokens, or the run takes no more.
        """
        session, account = self.session, self.account
        self._size = size
        stake = NO_STAKE
        if account.bounded or session.allowance.bounded:
            if account.terms.usd is not None and not self.route.priced:
                what = f"run {account.id} may spend {account.terms.usd:g} US dollars, and model {self.route.name} has"
                raise Problem("forbidden", f"{what} no price (models.{self.route.name}.price; 0 for a free one)")
            self._stake = stake = stake_of(self.asked, size, self._before(), account.mean_reply, self.route.usd)
        for allowance in (session.allowance, account):
            if not allowance.enter(stake):
                await allowance.wait(stake, seconds - self.waited)
                self.waited = time.perf_counter() - self.began
            self._within.append(allowance)

    def end(self) -> None:
        """What was set aside for it and was not used is free again."""
        while self._within:
            self._within.pop(0).leave(self._stake)

    async def take(self, keeper: Keeper, deadline: float, emit: Emit | None, ready: Ready) -> Completion:
        """Have it answered and kept; the completion has its ids only where the reply shows them, or could not be kept.

        Args:
            keeper: where turns are kept.
            deadline: seconds this may take.
            emit: where pieces of the reply go while it grows; None for a reply in one piece.
            ready: told of the reply once nothing of it will change any more, while the disk is at work; it is not kept
                yet then. It must not raise.

        Raises:
            Problem: it could not be answered, or not be kept.
        """
        strict = self.account.terms.capture == "strict"
        keeps = keeper.failure is None or await keeper.ready()
        if not keeps and strict:
            raise Problem("store", f"no turn can be kept, so none is begun: {keeper.failure}", retry_after=5.0)
        asked = self.asked
        if keeps:
            place = self.session.match(asked.messages, asked.tools)
            if await self._recalled(keeper, place.keys):
                place = self.session.match(asked.messages, asked.tools)
        else:
            place = Place(asked.messages)
        silence = self.route.silence if self.route.silence < self.route.deadline else None
        self._relay = Relay(emit, silence)  # else the deadline of the whole request stands over it
        try:
            completion = await self._answered(place, deadline)
        finally:
            self._relay.emit = None  # it leads back to this turn: both would stay until somebody looks for cycles
        self._charge(completion.usage)
        if not keeps:
            self._lost()
            return completion
        try:
            on_its_way = await self._sent(keeper, completion, place.keys, ready)
            completion = self._lean(completion)
            await keeper.settled(on_its_way)
            self.session.settling.discard(self.reply)
            self.kept = True
        except SchemaError as error:
            raise Problem("malformed", f"the turn cannot be kept: {redact(str(error))}") from error
        except StoreError as error:
            if strict:
                raise Problem("store", f"the reply could not be kept, so it is withheld: {error}") from error
            self._lost()
        return completion

    async def _answered(self, place: Place, deadline: float) -> Completion:
        """Ask backends until one answers, within the deadline and the budget of retries."""
        route, asked = self.route, self.asked
        request = Request(
            messages=place.messages,
            tools=asked.tools,
            sampling=asked.sampling,
            deadline=deadline,
            session=self.session.key,
            images={**self.earlier, **{name: data for name, (_, data) in asked.images.items()}},
            dialect=self.dialect,
            headers=self.headers,
        )
        router = route.router
        ends = router.now() + deadline
        attempts = router.attempts(ends)
        last: ModelError | None = None
        while True:
            asked_for = router.now()
            try:
                async with router.lease(
                    session=request.session,
                    run=self.account.id,
                    share=self.account.terms.share,
                    deadline=ends,
                    exclude=attempts.exclude,
                ) as lease:
                    now = router.now()
                    self.waited += now - asked_for
                    self.backend = lease.backend.name
                    left = ends - now if self._relay.emit is not None else min(ends - now, route.silence)
                    return await self._ask(lease, request, left, place)
            except Refused as refusal:
                raise _refused(refusal, last) from refusal
            except ModelError as error:
                last = _bare(error)
                if self._relay.began or not await attempts.again(error, self.backend):
                    raise of_model(error) from error

    async def _ask(self, lease: Lease, request: Request, seconds: float, place: Place) -> Completion:
        began = time.monotonic()
        asked = self.asked
        upstream = None

        def left() -> float:
            return max(seconds - (time.monotonic() - began), 0.001)

        async def put(upstream: Upstream) -> Completion:
            return await self._put(upstream, msgspec.structs.replace(request, deadline=left()), place)

        try:
            upstream = await self.route.upstream(lease, left())
            request, self.left_out = upstream.crossed(request, asked)
            try:
                completion = await put(upstream)
            except ModelError as error:
                if self._relay.began or not self.route.lost(upstream, error):
                    raise
                upstream = None
                upstream = await self.route.upstream(lease, left())  # it was started anew and loads the adapter it had
                completion = await put(upstream)
        except ModelError as error:
            if error.kind == "timeout" and not self.route.had_time(seconds - self._relay.held_up):
                lease.end()  # the client was in a hurry, or took its time: no fault of the backend
            else:
                lease.failed(error)
            if self._relay.began or (upstream is not None and error.kind == "timeout"):
                self._break_off(abandoned=False)
            raise
        except asyncio.CancelledError:
            if upstream is not None:
                self._break_off(abandoned=True)
            raise
        took = time.monotonic() - began
        told = completion.policy_version if upstream.tells else ""
        version = upstream.version or told or lease.version
        usage = completion.usage
        lease.succeeded(told)
        if not (usage.prompt_tokens and usage.completion_tokens):
            usage, self._estimated = used(completion, self.asked, self._size, self._before())
        return msgspec.structs.replace(
            renamed(completion, asked.messages),
            policy_version=version,
            usage=Usage(
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                written_tokens=usage.written_tokens,
                usd=self.route.usd(usage),
                model_seconds=took,
            ),
        )

    async def _put(self, upstream: Upstream, request: Request, place: Place) -> Completion:
        upstream.in_flight += 1
        try:
            if self._relay.emit is None:
                return await upstream.complete(request, place)
            return await self._relay.through(upstream.stream(request, place), self.backend)
        finally:
            upstream.in_flight -= 1

    async def _sent(
        self, keeper: Keeper, completion: Completion, keys: tuple[Key, ...], ready: Ready
    ) -> asyncio.Future[None]:
        """Send the turn on its way to disk, and say so.

        Raises:
            StoreError: the lake failed.
            SchemaError: a node cannot be written.
        """
        attributes: dict[str, Any] = {
            "request": self.request,
            "reply": self.reply,
            "dialect": self.dialect,
            "backend": self.backend,
        }
        if self._estimated:
            attributes["usage"] = "estimate"
        if self.words:
            attributes["words"] = self.words
        if self.left_out:
            attributes["left_out"] = list(self.left_out)
        if completion.extra:
            attributes["extra"] = completion.extra
        if completion.dialect:
            attributes["spoken"] = completion.dialect
        if self.session.stale:
            raise StoreError("the lake failed while the model was asked")
        for media_type, data in self.asked.images.values():
            await keeper.keep_blob(data, media_type)
        await self._recalled(keeper, keys)
        nodes = self.session.grow(self.asked.messages, keys, self.asked.tools, completion, attributes)
        written = [encode(node) for node in nodes]
        beside = [encode(node) for node in self.session.beside]
        on_its_way = keeper.submit([*beside, *written], partial(ready, completion))
        self.session.settling.add(self.reply)
        self._rest = partial(self.session.keep, nodes, written, keys)
        if self.asked.stream or not on_its_way.done():  # else it is on disk, and the reply goes out first
            self.settle()
        return on_its_way

    def _lean(self, completion: Completion) -> Completion:
        """A completion that is on its way to disk, with what its reply shows. Two thousand ids are 80 kB of Python's
        numbers: those of all turns that wait for the disk would push everything else out of the processor's cache,
        which costs 32 clients a fifth of their turns (`benchmarks/gateway.py`)."""
        tokens = completion.tokens
        if tokens is None or self.asked.wants_ids:
            return completion
        shown = (completion.logprobs or tokens.logprobs) if self.asked.wants_logprobs else ()
        return msgspec.structs.replace(completion, tokens=None, prompt_ids=(), logprobs=shown)

    def is_lost(self, keeper: Keeper) -> bool:
        """Whether it is known by now that the turn, which is being made, will be answered and not kept."""
        return (keeper.failure is not None or self.session.stale) and self.account.terms.capture != "strict"

    def settle(self) -> None:
        """Do what is left once the reply is out, before anything else of the rollout is looked at."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest()

    async def _recalled(self, keeper: Keeper, keys: tuple[Key, ...]) -> bool:
        """Take the conversation into memory again where it was dropped from it; whether that was needed."""
        if not self.session.lacks(self.asked.messages, keys, self.asked.tools):
            return False
        self.session.recall(await keeper.nodes(self.session.rollout.tree_id))
        return True

    def _charge(self, usage: Usage) -> None:
        stake, self._stake = self._stake, None
        for allowance in self._within:
            allowance.charge(usage, stake or NO_STAKE)

    def _break_off(self, *, abandoned: bool) -> None:
        """Book a call that came to no end. Its stake stays: what is tried next needs it."""
        usage = broken_off(self.asked, self._size, self._before(), self.account.mean_reply, self._relay.said)
        usage = msgspec.structs.replace(usage, usd=self.route.usd(usage))
        self.broken_off = (self.broken_off or NO_USAGE) + usage
        for allowance in self._within:
            allowance.charge_broken_off(usage, abandoned)

    def _before(self) -> int:
        """Tokens of a conversation that this goes on from and did not bring along."""
        return self.session.tokens_until(self.asked.previous) if self.asked.previous else 0

    def _lost(self) -> None:
        self.account.lost_turns[self.session.rollout.name] += 1


def _bare(error: ModelError) -> ModelError:
    """A failure without the frames it was raised through. They hold the request and the failure itself, so all of it
    would stay until somebody looks for cycles."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error


_KIND = {
    "absent": "overloaded",
    "exhausted": "upstream",
    "held": "rate_limit",
    "line_full": "rate_limit",
    "too_long": "rate_limit",
    "deadline": "timeout",
    "closed": "overloaded",
}


def _refused(refusal: Refused, last: ModelError | None) -> Problem:
    """The problem of a request that got no backend; where some were tried, what the last one said."""
    if last is not None:
        return of_model(last)
    return Problem(_KIND[refusal.kind], str(refusal), retry_after=refusal.retry_after)
