"""What one rollout may take of its model: turns and tokens, counted with those in flight.

    enter(stake) ─▶ in flight ─▶ charge (answered) │ charge_broken_off (left half-way) │ leave (nothing was used)
         └ too little is left beside those in flight ─▶ wait, in the order they came

It belongs to the rollout, not to its session or a conversation: a fork, many calls at once, a client that hangs up
and a session that is let go of all draw on the same.
"""

from __future__ import annotations

from silva.models.gateway.problem import Problem
from silva.models.gateway.reserve import NO_STAKE, Refusal, Reserve, Stake
from silva.tree import NO_USAGE, Usage


class Allowance:
    """See the module. One event loop.

    Args:
        turns: how many calls may be answered; None: no bound.
        tokens: how many tokens they may use together; None: no bound.
    """

    def __init__(self, turns: int | None = None, tokens: int | None = None) -> None:
        self.taken = 0
        """Calls that were answered, and those that a model was at when their client left."""
        self.spent = NO_USAGE
        self.bounded = tokens is not None
        """Whether what a call may cost has to be set aside."""
        self._turns = turns
        self._tokens = tokens
        self._reserve = Reserve(None, tokens)

    @property
    def in_flight(self) -> int:
        """Calls that were let in and are not settled."""
        return self._reserve.in_flight

    def restore(self, turns: int, usage: Usage) -> None:
        """Take over what the lake tells of an earlier life, where that is more."""
        self.taken = max(self.taken, turns)
        if _tokens(usage) > _tokens(self.spent):
            self.spent = usage

    def enter(self, stake: Stake = NO_STAKE) -> bool:
        """Let one call in that may cost as much as `stake`; False: not yet, it has to `wait`.

        Raises:
            Problem: the rollout has taken its turns or used its tokens.
        """
        refusal = self._refusal()
        if refusal is not None:
            raise Problem(*refusal)
        if self.bounded and (len(self._reserve) or not self._reserve.fits(stake, self.spent)):
            return False
        self._reserve.take(stake)
        return True

    async def wait(self, stake: Stake, seconds: float) -> None:
        """Let a call in once enough of those in flight are settled.

        Raises:
            Problem: as `enter`, or that took longer than `seconds`.
        """
        try:
            refusal = await self._reserve.wait(stake, seconds)
        except BaseException as fault:
            self._look()
            if not isinstance(fault, TimeoutError):
                raise
            what = f"what is left of this rollout's tokens is set aside for {self.in_flight} calls in flight"
            raise Problem("timeout", f"{what}, which took longer than {seconds:g} seconds") from fault
        if refusal is not None:
            raise Problem(*refusal)

    def charge(self, usage: Usage, stake: Stake = NO_STAKE) -> None:
        """Book a call that was answered, in place of what was set aside for it."""
        self.taken += 1
        self.spent = self.spent + usage
        self.leave(stake)

    def charge_broken_off(self, usage: Usage, abandoned: bool) -> None:
        """Book a call that came to no end, by estimate; it is still in flight. `abandoned`: its client left."""
        self.taken += abandoned
        self.spent = self.spent + usage

    def leave(self, stake: Stake = NO_STAKE) -> None:
        """A call is done; what was set aside for it is free again."""
        self._reserve.give_back(stake)
        self._look()

    def _look(self) -> None:
        if len(self._reserve):
            self._reserve.look(self.spent, self._refusal)

    def _refusal(self) -> Refusal | None:
        if self._turns is not None and self.taken + self.in_flight >= self._turns:
            return "budget", f"this rollout has taken its {self._turns} turns"
        if self._tokens is not None and (used := _tokens(self.spent)) >= self._tokens:
            return "budget", f"this rollout has used {used} of {self._tokens} tokens"
        return None


def _tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.completion_tokens
