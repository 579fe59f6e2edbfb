"""What may be taken of models, counted with what is in flight: by one rollout, and (`runs.RunAccount`) by a whole run.

    enter(stake) ─▶ in flight, the stake set aside ─▶ charge (answered) │ charge_broken_off (left half-way) ─▶ leave
         └ too little is left beside those in flight ─▶ wait: a line, looked at again whenever something is settled

A rollout's belongs to it, not to its session or a conversation: a fork, many calls at once, a client that hangs up and
a session that is let go of all draw on the same.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

from silva.models.gateway.problem import Problem
from silva.models.gateway.stake import NO_STAKE, Stake
from silva.tree import NO_USAGE, Usage

Refusal = tuple[str, str]
"""Kind and words of a problem. Not the problem itself: one that is kept keeps the frames it was raised through."""


def demand(refusal: Refusal | None) -> None:
    """Return where there is none.

    Raises:
        Problem: the refusal.
    """
    if refusal is not None:
        raise Problem(*refusal)


class Allowance:
    """See the module; a bound that is None is none. One event loop.

    `requests` counts answered calls, `abandoned` those whose client left while a model was at them; both are taken.
    `in_flight` are those that were let in and have not left, settled or not.

    Args:
        turns: how many calls may be taken.
        tokens: how many tokens they may use together.
        usd: how many US dollars they may cost together.
    """

    whose = "this rollout"
    counted = "turns"

    def __init__(self, turns: int | None = None, tokens: int | None = None, usd: float | None = None) -> None:
        self.spent = NO_USAGE
        self.requests = 0
        self.abandoned = 0
        self.in_flight = 0
        self.bounded = usd is not None or tokens is not None
        """What a call costs can reach a bound, so that each that enters needs a stake."""
        self._turns = turns
        self._tokens = tokens
        self._usd = usd
        self._unsettled = 0
        self._set_aside = NO_STAKE
        self._line: deque[tuple[Stake, asyncio.Future[Refusal | None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many calls wait for others to be settled."""
        return len(self._line)

    def restore(self, turns: int, usage: Usage) -> None:
        """Take over what the lake tells of an earlier life, where that is more."""
        self.requests = max(self.requests, turns - self.abandoned)
        if _tokens(usage) > _tokens(self.spent):
            self.spent = usage

    def refusal(self) -> Refusal | None:
        """Why nobody comes in now, or None where somebody may. What is in flight counts against the number of calls,
        so that a bound of ten is never passed by an eleventh."""
        if self._usd is not None and self.spent.usd >= self._usd:
            return self.overdrawn(f"{self.spent.usd:.4f} of {self._usd:g} US dollars")
        if self._tokens is not None and (used := _tokens(self.spent)) >= self._tokens:
            return self.overdrawn(f"{used} of {self._tokens} tokens")
        taken = self.requests + self.abandoned
        if self._turns is not None and taken + self._unsettled >= self._turns:
            return self.overdrawn(f"{taken} of {self._turns} {self.counted}")
        return None

    def overdrawn(self, what: str) -> Refusal:
        """Why nobody comes in who would have to pay; `what` is used up."""
        return "budget", f"{self.whose} has used {what}"

    def enter(self, stake: Stake = NO_STAKE) -> bool:
        """Let one call in that may cost as much as `stake`; False: not yet, it has to `wait`.

        Raises:
            Problem: nobody comes in any more.
        """
        demand(self.refusal())
        if self.bounded and (self._line or not self._fits(stake)):
            return False
        self._take(stake)
        self.in_flight += 1
        return True

    async def wait(self, stake: Stake, seconds: float) -> None:
        """Let a call in once enough of those in flight are settled, in the order they came.

        Raises:
            Problem: as `enter`, or that took longer than `seconds`.
        """
        future: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        entry = (stake, future)
        self._line.append(entry)
        try:
            async with asyncio.timeout(seconds):
                refusal = await future
        except BaseException as fault:
            if entry in self._line:
                self._line.remove(entry)
            elif future.done() and not future.cancelled() and future.result() is None:
                self._give_back(stake)  # it was taken in the same moment
            self._look()  # it may have stood in the way of others
            if not isinstance(fault, TimeoutError):
                raise
            what = f"what is left of the budget of {self.whose} is set aside for {self._unsettled} calls in flight"
            raise Problem("timeout", f"{what}, which took longer than {seconds:g} seconds") from fault
        demand(refusal)
        self.in_flight += 1

    def charge(self, usage: Usage, stake: Stake = NO_STAKE) -> None:
        """Book a call that was answered, in place of what was set aside for it."""
        self.requests += 1
        self.spent = self.spent + usage
        self._settle(stake)

    def charge_broken_off(self, usage: Usage, abandoned: bool) -> None:
        """Book a call that came to no end, by estimate; it is still in flight. `abandoned`: its client left."""
        self.abandoned += abandoned
        self.spent = self.spent + usage

    def leave(self, stake: Stake | None) -> None:
        """A call is done, one way or the other. `stake`: what was set aside and is free again; None where it was
        charged."""
        self.in_flight -= 1
        if stake is not None:
            self._settle(stake)

    def _settle(self, stake: Stake) -> None:
        self._give_back(stake)
        self._look()

    def _look(self) -> None:
        """Let in who waits, as far as they fit beside what was spent; tell them where nobody comes in any more."""
        while self._line:
            stake, future = self._line[0]
            told = self.refusal()
            if told is None and not self._fits(stake):
                return
            self._line.popleft()
            if future.done():  # its client left
                continue
            if told is None:
                self._take(stake)
            future.set_result(told)

    def _fits(self, stake: Stake) -> bool:
        """Whether a call can be let in now; one that comes alone always can, so that a run gets on."""
        if not self._unsettled:
            return True
        held = self._set_aside
        tokens, usd = _tokens(self.spent) + held.tokens + stake.tokens, self.spent.usd + held.usd + stake.usd
        return tokens <= _bound(self._tokens) and usd <= _bound(self._usd)

    def _take(self, stake: Stake) -> None:
        self._unsettled += 1
        if stake is not NO_STAKE:
            held = self._set_aside
            self._set_aside = Stake(held.tokens + stake.tokens, held.usd + stake.usd)

    def _give_back(self, stake: Stake) -> None:
        self._unsettled -= 1
        if not self._unsettled:
            self._set_aside = NO_STAKE  # sums of fractions do not come back to nothing by themselves
        elif stake is not NO_STAKE:
            held = self._set_aside
            self._set_aside = Stake(held.tokens - stake.tokens, held.usd - stake.usd)


def _bound(most: float | None) -> float:
    return math.inf if most is None else most


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.completion_tokens
