"""Runs at the gateway: who may come in, until when, and what they may spend.

    open ─▶ token (shown once; the lake keeps its digest) ─▶ admit(token) ─▶ RunAccount ─▶ enter, charge, leave, close
       └─ each announced rollout ─▶ a token of its own (`Roster`), which opens nothing else

A gateway that was killed finds its runs again in the lake, with their spending, so programs at work go on with the
token they have.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from typing import Any

import msgspec

import silva
from silva.models.gateway.attempts import Owed
from silva.models.gateway.config import Budget, Runs
from silva.models.gateway.problem import Problem
from silva.models.gateway.reserve import NO_STAKE, Refusal, Reserve, Stake
from silva.models.gateway.roster import NAME, PREFIX, Roster, new_token, token_digest
from silva.tree import NO_USAGE, Json, Lineage, Record, Run, Usage


class RunTerms(Record, frozen=True, kw_only=True):
    """What a run was given when it was opened. `expires` is in Unix seconds, `token_sha256` its token's digest."""

    token_sha256: str
    expires: float
    capture: str = "strict"
    share: float = 1.0
    usd: float | None = None
    tokens: int | None = None
    requests: int | None = None

    @property
    def budget(self) -> Budget:
        """The budget as the configuration has it."""
        return Budget(usd=self.usd, tokens=self.tokens, requests=self.requests)


class RunAccount:
    """One open run: its terms and what it has spent. `requests` counts answered ones, `abandoned` those whose client
    left while a model was at them, `refused` the others. `lost_turns`: how many answered ones of each rollout were not
    kept; it outlives the rollouts' sessions, which are let go of when the lake is opened again. `broken_off`: what of
    `spent` is an estimate, for calls that came to no end. `roster`: its rollouts; None once the run is closed,
    when they stand in the lake alone. `owed`: answers that did not get across. `large` is held while one of its large
    requests is read. `bounded`: what a request costs can reach a bound, so that each that enters needs a stake."""

    def __init__(self, run: Run, terms: RunTerms, spent: Usage = NO_USAGE, requests: int = 0) -> None:
        self.run = run
        self.terms = terms
        self.spent = spent
        self.requests = requests
        self.broken_off = NO_USAGE
        self.abandoned = 0
        self.refused = 0
        self.lost_turns: Counter[str] = Counter()
        self.in_flight = 0
        self.token = b""
        self.large = asyncio.Lock()
        self.roster: Roster | None = Roster()
        self.owed = Owed()
        self.bounded = terms.usd is not None or terms.tokens is not None
        self._reserve = Reserve(terms.usd, terms.tokens)

    @property
    def lost(self) -> int:
        """Answered requests that were not kept."""
        return self.lost_turns.total()

    @property
    def id(self) -> str:
        """The run's name."""
        return self.run.id

    @property
    def waiting(self) -> int:
        """How many requests wait for others to be settled."""
        return len(self._reserve)

    @property
    def mean_reply(self) -> float | None:
        """How many tokens a reply had so far, on average."""
        if not self.requests:
            return None
        return (self.spent.completion_tokens - self.broken_off.completion_tokens) / self.requests

    def opened_by(self, token: str) -> str | None:
        """Which of its rollouts a token is good for, "" for all of them; None where it is none of this run's. Takes the
        same time whatever is wrong with it."""
        if self.token and hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token):
            return ""
        given = token_digest(token)
        if hmac.compare_digest(given, self.terms.token_sha256):
            self.token = token.encode()  # hashed once; from now on compared
            return ""
        return None if self.roster is None else self.roster.whose(given)

    def enter(self, now: float, stake: Stake = NO_STAKE) -> bool:
        """Let one request in that may cost as much as `stake`; False: not yet, it has to `wait`.

        Raises:
            Problem: the run has expired or is closed, or its budget is spent. What is in flight counts against the
                number of requests, so that a bound of ten is never passed by an eleventh.
        """
        refusal = self._refusal(now)
        if refusal is not None:
            raise Problem(*refusal)
        if self.bounded and (len(self._reserve) or not self._reserve.fits(stake, self.spent)):
            return False
        self._reserve.take(stake)
        self.in_flight += 1
        return True

    async def wait(self, stake: Stake, seconds: float) -> None:
        """Let a request in once enough of those in flight are settled, in the order they came.

        Raises:
            Problem: as `enter`, or that took longer than `seconds`.
        """
        try:
            refusal = await self._reserve.wait(stake, seconds)
        except BaseException as fault:
            self._look()  # it may have stood in the way of others
            if not isinstance(fault, TimeoutError):
                raise
            what = f"what is left of the budget of run {self.id} is set aside for {self._reserve.in_flight} requests"
            raise Problem("timeout", f"{what} in flight, which took longer than {seconds:g} seconds") from fault
        if refusal is not None:
            raise Problem(*refusal)
        self.in_flight += 1

    def is_open(self, now: float) -> None:
        """Return where the run answers.

        Raises:
            Problem: it has expired or is closed.
        """
        refusal = self._over(now)
        if refusal is not None:
            raise Problem(*refusal)

    def takes(self, now: float) -> None:
        """Return where a request could come in, or wait to.

        Raises:
            Problem: as `enter`.
        """
        refusal = self._refusal(now)
        if refusal is not None:
            raise Problem(*refusal)

    def is_closed(self) -> Problem:
        """What a request is told once the run is closed."""
        return Problem(*_closed(self.id))

    def charge(self, usage: Usage, stake: Stake = NO_STAKE) -> None:
        """Book an answered request, in place of what was set aside for it."""
        self.spent = self.spent + usage
        self.requests += 1
        self._settled(stake)

    def charge_broken_off(self, usage: Usage, abandoned: bool) -> None:
        """Book a call that a model was at work on and that came to no end. `abandoned`: because its client left."""
        self.spent = self.spent + usage
        self.broken_off = self.broken_off + usage
        self.abandoned += abandoned

    def go_on(self, known: RunAccount) -> None:
        """Take over all but the terms from the account that the run had before it was opened again."""
        self.spent, self.requests, self.broken_off = known.spent, known.requests, known.broken_off
        self.abandoned, self.refused, self.lost_turns = known.abandoned, known.refused, known.lost_turns
        self.roster, self.owed = known.roster, known.owed

    def restore(self, summary: Json) -> None:
        """Take over what no turn tells of, from the summary of an earlier account of this run."""
        self.broken_off = msgspec.convert(summary.get("broken_off", {}), Usage)
        self.spent = self.spent + self.broken_off
        self.abandoned = int(summary.get("abandoned", 0))

    def leave(self, stake: Stake | None) -> None:
        """The request that entered is done, one way or the other. `stake`: what was set aside and is free again; None
        where it was charged."""
        self.in_flight -= 1
        if stake is not None:
            self._settled(stake)

    def summary(self) -> Json:
        """What it has done, for its record and the admin routes."""
        return {
            "requests": self.requests,
            "abandoned": self.abandoned,
            "refused": self.refused,
            "lost": self.lost,
            "prompt_tokens": self.spent.prompt_tokens,
            "completion_tokens": self.spent.completion_tokens,
            "cached_tokens": self.spent.cached_tokens,
            "usd": self.spent.usd,
            "broken_off": msgspec.to_builtins(self.broken_off),
        }

    def standing(self) -> Run:
        """The run's record as it stands."""
        return msgspec.structs.replace(self.run, summary=self.summary())

    def closed(self, status: str) -> Run:
        """The run's last record."""
        return msgspec.structs.replace(self.run, status=status, finished=time.time(), summary=self.summary())

    def _settled(self, stake: Stake) -> None:
        self._reserve.give_back(stake)
        if len(self._reserve):
            self._look()

    def _look(self) -> None:
        self._reserve.look(self.spent, lambda: self._refusal(time.time()))

    def _refusal(self, now: float) -> Refusal | None:
        """Why nobody comes in now, or None where somebody may."""
        over = self._over(now)
        if over is not None:
            return over
        terms = self.terms
        used = self.spent.prompt_tokens + self.spent.completion_tokens
        if terms.usd is not None and self.spent.usd >= terms.usd:
            return self._overdrawn(f"{self.spent.usd:.4f} of {terms.usd:g} US dollars")
        if terms.tokens is not None and used >= terms.tokens:
            return self._overdrawn(f"{used} of {terms.tokens} tokens")
        taken = self.requests + self.abandoned
        if terms.requests is not None and taken + self._reserve.in_flight >= terms.requests:
            return self._overdrawn(f"{taken} of {terms.requests} requests")
        return None

    def _over(self, now: float) -> Refusal | None:
        if self.run.finished:
            return _closed(self.id)
        if now >= self.terms.expires:
            return "auth", f"run {self.id} has expired: open it again, or another"
        return None

    def _overdrawn(self, what: str) -> Refusal:
        return "budget", f"the budget of run {self.id} is spent: {what}; raise it or open another run"


def _closed(run: str) -> Refusal:
    return "forbidden", f"run {run} is closed: open another"


def new_run(name: str, defaults: Runs, asked: Json, now: float, *, priced: bool = True) -> tuple[RunAccount, str]:
    """A new run and its token, which is shown this once.

    Args:
        name: the run's name.
        defaults: the gateway's own terms.
        asked: terms asked for instead: fields of `Runs`.
        now: Unix seconds.
        priced: whether any model has a price that a budget in dollars could be held to.

    Raises:
        Problem: the name or a term is not usable.
    """
    if not NAME.fullmatch(name):
        raise Problem("malformed", f"run name {name!r}: letters, digits, '.', '_' and '-' only, at most 100", "run")
    try:
        terms = Runs.model_validate({**defaults.model_dump(), **asked})
    except ValueError as error:
        raise Problem("malformed", " ".join(str(error).split())[:300]) from error
    if terms.budget.usd is not None and not priced:
        what = "no model here has a price, so a budget in dollars would bound nothing"
        raise Problem("malformed", f"{what}: set models.NAME.price, or bound the tokens", "budget.usd")
    token = new_token(name)
    given = RunTerms(
        token_sha256=token_digest(token),
        expires=now + terms.hours * 3600,
        capture=terms.capture,
        share=terms.share,
        usd=terms.budget.usd,
        tokens=terms.budget.tokens,
        requests=terms.budget.requests,
    )
    run = Run(
        id=name,
        command="gateway",
        config={"gateway": msgspec.to_builtins(given)},
        lineage=Lineage(code=f"silva {silva.__version__}"),
        started=now,
    )
    return RunAccount(run, given), token


def known_run(run: Run, spent: Usage, requests: int) -> RunAccount | None:
    """A run that the lake remembers, or None where it was not opened by a gateway."""
    given = run.config.get("gateway")
    if not isinstance(given, dict):
        return None
    try:
        account = RunAccount(run, msgspec.convert(given, RunTerms), spent, requests)
        account.restore(run.summary)
    except msgspec.ValidationError:
        return None
    return account


def run_of(token: str) -> str:
    """The name of the run that a token says it is for ("" where it says none)."""
    prefix, _, rest = token.partition(".")
    return rest.rpartition(".")[0] if prefix == PREFIX else ""


def usage_fields(value: Any) -> Usage:
    """A usage from one row of sums."""
    return Usage(
        prompt_tokens=int(value[0] or 0),
        completion_tokens=int(value[1] or 0),
        cached_tokens=int(value[2] or 0),
        usd=float(value[3] or 0.0),
    )
