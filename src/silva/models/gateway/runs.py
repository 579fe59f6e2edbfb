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

import msgspec

import silva
from silva.models.gateway.allowance import Allowance, Refusal, demand
from silva.models.gateway.attempts import Owed
from silva.models.gateway.config import Runs
from silva.models.gateway.problem import Problem
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


class RunAccount(Allowance):
    """One open run: its terms and what it has spent. `refused` counts the requests it let nobody in for.
    `lost_turns`: how many answered ones of each rollout were not kept; it outlives the rollouts' sessions, which are
    let go of when the lake is opened again. `broken_off`: what of `spent` is an estimate, for calls that came to no
    end. `roster`: its rollouts; None once the run is closed, when they stand in the lake alone. `owed`: answers that
    did not get across. `large` is held while one of its large requests is read."""

    counted = "requests"

    def __init__(self, run: Run, terms: RunTerms, spent: Usage = NO_USAGE, requests: int = 0) -> None:
        super().__init__(terms.requests, terms.tokens, terms.usd)
        self.whose = f"run {run.id}"
        self.run = run
        self.terms = terms
        self.spent = spent
        self.requests = requests
        self.broken_off = NO_USAGE
        self.refused = 0
        self.lost_turns: Counter[str] = Counter()
        self.token = b""
        self.large = asyncio.Lock()
        self.roster: Roster | None = Roster()
        self.owed = Owed()

    @property
    def lost(self) -> int:
        """Answered requests that were not kept."""
        return self.lost_turns.total()

    @property
    def id(self) -> str:
        """The run's name."""
        return self.run.id

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

    def is_open(self) -> None:
        """Return where the run answers.

        Raises:
            Problem: it has expired or is closed.
        """
        demand(self._over())

    def takes(self) -> None:
        """Return where a request could come in, or wait to.

        Raises:
            Problem: as `enter`.
        """
        demand(self.refusal())

    def is_closed(self) -> Problem:
        """What a request is told once the run is closed."""
        return Problem(*_closed(self.id))

    def charge_broken_off(self, usage: Usage, abandoned: bool) -> None:
        """See `Allowance`."""
        super().charge_broken_off(usage, abandoned)
        self.broken_off = self.broken_off + usage

    def go_on(self, known: RunAccount) -> None:
        """Take over all but the terms from the account that the run had before it was opened again."""
        self.spent, self.requests, self.broken_off = known.spent, known.requests, known.broken_off
        self.abandoned, self.refused, self.lost_turns = known.abandoned, known.refused, known.lost_turns
        self.roster, self.owed = known.roster, known.owed

    def recall(self, summary: Json) -> None:
        """Take over what no turn tells of, from the summary of an earlier account of this run."""
        self.broken_off = msgspec.convert(summary.get("broken_off", {}), Usage)
        self.spent = self.spent + self.broken_off
        self.abandoned = int(summary.get("abandoned", 0))

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

    def refusal(self) -> Refusal | None:
        """Why nobody comes in now, or None where somebody may."""
        return self._over() or super().refusal()

    def overdrawn(self, what: str) -> Refusal:
        """See `Allowance`."""
        return "budget", f"the budget of {self.whose} is spent: {what}; raise it or open another run"

    def _over(self) -> Refusal | None:
        if self.run.finished:
            return _closed(self.id)
        if time.time() >= self.terms.expires:
            return "auth", f"run {self.id} has expired: open it again, or another"
        return None


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
        **terms.model_dump(include={"capture", "share"}),
        **terms.budget.model_dump(),
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
        account.recall(run.summary)
    except msgspec.ValidationError:
        return None
    return account


def run_of(token: str) -> str:
    """The name of the run that a token says it is for ("" where it says none)."""
    prefix, _, rest = token.partition(".")
    return rest.rpartition(".")[0] if prefix == PREFIX else ""
