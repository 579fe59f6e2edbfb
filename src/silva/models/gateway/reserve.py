"""What requests in flight may cost, set aside until it is known what they did; where too little is left, others wait.

Stake ─▶ spent + set aside + its own within the bounds, or nothing in flight? ─▶ taken ─▶ given back once settled
                               └ no ─▶ line ─ something is given back ─▶ looked at again, in the order they came
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

import msgspec

from silva.models.gateway.dialects.dialect import Asked
from silva.models.model import Completion
from silva.tree import TextPart, ThinkingPart, Usage

BYTES_PER_TOKEN = 4
"""Bytes of a body that make one token of a prompt, roughly."""
PICTURE = 1500
"""Tokens a picture makes, roughly, however many bytes it has."""
FIRST_REPLY = 1024
"""Tokens a reply is taken to have before a run has had any."""

Refusal = tuple[str, str]
"""Kind and words of a problem. Not the problem itself: one that is kept keeps the frames it was raised through."""


class Stake(msgspec.Struct, frozen=True, gc=False):
    """What one request may cost."""

    tokens: int = 0
    usd: float = 0.0


NO_STAKE = Stake()
"""For runs without a bound that costs could reach."""


def stake_of(asked: Asked, size: int, before: int, mean: float | None, usd: Callable[[Usage], float]) -> Stake:
    """What a request may cost.

    Args:
        asked: the request.
        size: bytes of its body.
        before: tokens of a conversation that it goes on from and did not bring along.
        mean: tokens the replies of its run had so far, on average; None where there was none.
        usd: the price of its route.
    """
    prompt = _prompt(asked, size, before)
    most = asked.sampling.max_tokens
    reply = _reply(mean) if most is None else most
    return Stake(tokens=prompt + reply, usd=usd(Usage(prompt_tokens=prompt, completion_tokens=reply)))


def broken_off(asked: Asked, size: int, before: int, mean: float | None, said: int) -> Usage:
    """What a call has used, as well as can be told, that was put to a model and did not come to its end. Nobody says,
    but providers bill it all the same.

    Args:
        asked: the request.
        size: as for `stake_of`.
        before: as for `stake_of`.
        mean: as for `stake_of`.
        said: characters that had come of its reply; 0: it is taken to be a usual one.
    """
    reply = said // BYTES_PER_TOKEN + 1 if said else _reply(mean)
    most = asked.sampling.max_tokens
    return Usage(
        prompt_tokens=_prompt(asked, size, before), completion_tokens=reply if most is None else min(reply, most)
    )


def used(completion: Completion, asked: Asked, size: int, before: int) -> tuple[Usage, bool]:
    """What a reply used whose backend does not tell, or not all of it: its ids are counted where there are any, else it
    is estimated.

    Args:
        completion: the reply.
        asked: the request.
        size: as for `stake_of`.
        before: as for `stake_of`.

    Returns:
        The usage, and whether something of it is an estimate.
    """
    usage, message, tokens = completion.usage, completion.message, completion.tokens
    prompt = usage.prompt_tokens or len(completion.prompt_ids)
    reply = usage.completion_tokens or (0 if tokens is None else tokens.sampled)
    said = sum(len(part.text) for part in message.parts if isinstance(part, TextPart | ThinkingPart))
    said += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    estimated = not prompt or (not reply and said > 0)
    if not reply and said:
        reply = said // BYTES_PER_TOKEN + 1
    prompt = prompt or _prompt(asked, size, before)
    return msgspec.structs.replace(usage, prompt_tokens=prompt, completion_tokens=reply), estimated


def _prompt(asked: Asked, size: int, before: int) -> int:
    for _, data in asked.images.values():
        size -= len(data) * 4 // 3  # as base64
    return before + len(asked.images) * PICTURE + max(size, 0) // BYTES_PER_TOKEN + 1


def _reply(mean: float | None) -> int:
    return math.ceil(FIRST_REPLY if mean is None else mean)


class Reserve:
    """What one run's requests in flight have set aside, and the line of those who wait. One event loop.

    Args:
        usd: US dollars the run may spend; None: no bound.
        tokens: tokens it may spend; None: no bound.
    """

    __slots__ = ("_line", "_set_aside", "_tokens", "_usd", "in_flight")

    def __init__(self, usd: float | None, tokens: int | None) -> None:
        self.in_flight = 0
        self._usd = math.inf if usd is None else usd
        self._tokens = math.inf if tokens is None else tokens
        self._set_aside = NO_STAKE
        self._line: deque[tuple[Stake, asyncio.Future[Refusal | None]]] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._line)

    def fits(self, stake: Stake, spent: Usage) -> bool:
        """Whether a request can be let in now; one that comes alone always can, so that a run gets on."""
        if not self.in_flight:
            return True
        tokens = spent.prompt_tokens + spent.completion_tokens + self._set_aside.tokens + stake.tokens
        return tokens <= self._tokens and spent.usd + self._set_aside.usd + stake.usd <= self._usd

    def take(self, stake: Stake) -> None:
        """A request is in flight."""
        self.in_flight += 1
        if stake is not NO_STAKE:
            held = self._set_aside
            self._set_aside = Stake(held.tokens + stake.tokens, held.usd + stake.usd)

    def give_back(self, stake: Stake) -> None:
        """A request is settled: its cost is among what was spent, or there was none. `look` afterwards."""
        self.in_flight -= 1
        if not self.in_flight:
            self._set_aside = NO_STAKE  # sums of fractions do not come back to nothing by themselves
        elif stake is not NO_STAKE:
            held = self._set_aside
            self._set_aside = Stake(held.tokens - stake.tokens, held.usd - stake.usd)

    async def wait(self, stake: Stake, seconds: float) -> Refusal | None:
        """Wait until the stake has been taken, or the run lets nobody in any more: returns why.

        Raises:
            TimeoutError: neither came within so many seconds.
        """
        entry = (stake, asyncio.get_running_loop().create_future())
        self._line.append(entry)
        future = entry[1]
        try:
            async with asyncio.timeout(seconds):
                return await future
        except BaseException:
            if entry in self._line:
                self._line.remove(entry)
            elif future.done() and not future.cancelled() and future.result() is None:
                self.give_back(stake)  # it was taken in the same moment
            raise

    def look(self, spent: Usage, refusal: Callable[[], Refusal | None]) -> None:
        """Let in who waits, as far as they fit beside what was spent; tell them where the run lets nobody in."""
        while self._line:
            stake, future = self._line[0]
            told = refusal()
            if told is None and not self.fits(stake, spent):
                return
            self._line.popleft()
            if future.done():  # its client left
                continue
            if told is None:
                self.take(stake)
            future.set_result(told)
