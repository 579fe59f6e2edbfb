"""The breaker, the limiter, the retry budget and the drain rate: their specifications, against any history."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from silva.models import ModelError
from silva.models.gateway.routing.admission import LATEST, SOONEST, Admission, DrainRate, Refused
from silva.models.gateway.routing.breaker import Breaker
from silva.models.gateway.routing.limiter import WINDOW, Limiter
from silva.models.gateway.routing.retries import EARNED_MOST, FLOOR_MOST, RetryBudget, where

FEW = settings(max_examples=50, stateful_step_count=30, deadline=None)


class BreakerMachine(RuleBasedStateMachine):
    """Any order of beginnings and outcomes, late ones included."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(3, 5.0)
        self.now = 0.0
        self.under_way: list[tuple[int, str]] = []
        self.opened_at: float | None = None

    @rule(seconds=st.floats(0.0, 6.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.breaker.allows(self.now))
    @rule()
    def begin(self) -> None:
        ticket = self.breaker.begin(self.now)
        self.under_way.append((ticket, self.breaker.phase))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), outcome=st.sampled_from(["succeeded", "failed", "cancelled"]))
    def end(self, data: st.DataObject, outcome: str) -> None:
        ticket, phase = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before = self.breaker.phase
        if outcome == "failed":
            self.breaker.failed(ticket, self.now)
        elif outcome == "succeeded":
            self.breaker.succeeded(ticket)
        else:
            self.breaker.cancelled(ticket)
        if before == "open":
            assert self.breaker.phase == "open", "what began before it opened does not close it"
        if before == "half_open" and phase == "closed":
            assert self.breaker.phase == "half_open", "only the probe decides"
        if before == "half_open" and phase == "half_open":
            assert self.breaker.phase == {"succeeded": "closed", "failed": "open", "cancelled": "half_open"}[outcome]
        if before == "closed" and self.breaker.phase == "open":
            self.opened_at = self.now

    @invariant()
    def one_probe_at_a_time(self) -> None:
        probes = [phase for _, phase in self.under_way if phase == "half_open"]
        if self.breaker.phase == "half_open":
            assert self.breaker.allows(self.now) == (not self.breaker.probing)
        assert len(probes) <= 1

    @invariant()
    def open_means_nobody_passes(self) -> None:
        if self.breaker.phase == "open" and self.now < self.breaker.reopens:
            assert not self.breaker.allows(self.now)


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = FEW


def test_a_breaker_opens_after_failures_in_a_row_alone() -> None:
    breaker = Breaker(3, 5.0)
    for outcome in "ffsfff":
        assert breaker.phase == "closed"
        ticket = breaker.begin(0.0)
        breaker.failed(ticket, 0.0) if outcome == "f" else breaker.succeeded(ticket)
    assert breaker.phase == "open"
    assert not breaker.allows(4.9)
    assert breaker.allows(5.0)


class LimiterMachine(RuleBasedStateMachine):
    """Requests begin under the limit and end in any way and order."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = Limiter(8, 2, 40)
        self.now = 0.0
        self.under_way: list[tuple[float, bool]] = []
        self.decreased_at = -1.0

    @rule(seconds=st.floats(0.001, 2.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: len(self.under_way) < self.limiter.limit)
    @rule(count=st.integers(1, 10))
    def begin(self, count: int) -> None:
        for _ in range(min(count, self.limiter.limit - len(self.under_way))):
            self.under_way.append((self.now, self.limiter.used(len(self.under_way) + 1)))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), fine=st.booleans(), units=st.integers(0, 50))
    def end(self, data: st.DataObject, fine: bool, units: int) -> None:
        began, used = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before = self.limiter.limit
        if fine:
            self.limiter.succeeded(began, used, self.now, self.now - began, units)
            if not used:
                assert self.limiter.limit <= before, "an idle backend teaches nothing about its bounds"
            assert self.limiter.limit <= before + 1
        else:
            self.limiter.overloaded(began, self.now)
            if began < self.decreased_at:
                assert self.limiter.limit == before, "one decrease per round trip"
        if self.limiter.limit < before:
            assert began >= self.decreased_at
            self.decreased_at = self.now

    @invariant()
    def within_bounds(self) -> None:
        assert 2 <= self.limiter.limit <= 40


TestLimiter = LimiterMachine.TestCase
TestLimiter.settings = FEW


def test_the_limit_finds_what_a_backend_can_take() -> None:
    limiter = Limiter(2, 1, 1000)
    capacity, now = 50, 0.0
    seen = []
    for _ in range(300):
        flight = [(now, limiter.used(index + 1), index) for index in range(limiter.limit)]
        now += 1.0
        for began, used, index in flight:
            if index < capacity:
                limiter.succeeded(began, used, now)
            else:
                limiter.overloaded(began, now)
        seen.append(limiter.limit)
    settled = seen[100:]
    assert capacity * 0.6 <= min(settled) <= max(settled) <= capacity * 1.1


def test_a_backend_that_gets_far_slower_per_token_is_overloaded() -> None:
    limiter = Limiter(100, 1, 100)
    for _ in range(WINDOW):
        limiter.succeeded(0.0, True, 1.0, seconds=2.0, units=200)
    for index in range(WINDOW):  # ten times the tokens in ten times the time is no slower
        limiter.succeeded(1.0, True, 2.0, seconds=20.0, units=2000 + index)
    assert limiter.limit == 100
    for _ in range(WINDOW):
        limiter.succeeded(3.0, True, 4.0, seconds=30.0, units=200)
    assert limiter.limit == 70


def test_retry_after_holds_a_backend_but_not_for_ever() -> None:
    limiter = Limiter(8, 1, 8)
    limiter.overloaded(0.0, 1.0, retry_after=3.0)
    assert limiter.held_until == 4.0
    limiter.overloaded(0.0, 1.0, retry_after=1e9)
    assert limiter.held_until <= 61.0


def error(kind: str, transient: bool = False, retry_after: float | None = None) -> ModelError:
    return ModelError(kind, kind, transient=transient, retry_after=retry_after)


@given(
    steps=st.lists(st.tuples(st.booleans(), st.floats(0.0, 3.0)), max_size=300),
    ratio=st.floats(0.0, 1.0),
)
@settings(max_examples=50, deadline=None)
def test_retries_stay_within_their_budget(steps: list[tuple[bool, float]], ratio: float) -> None:
    budget = RetryBudget(ratio, 3)
    now, requests, retries = 0.0, 0, 0
    for is_request, seconds in steps:
        now += seconds
        if is_request:
            requests += 1
            budget.earn()
        else:
            retries += budget.spend(now)
    assert retries <= min(EARNED_MOST, requests * ratio) + requests * ratio + FLOOR_MOST + now
    assert retries <= requests * ratio + FLOOR_MOST + now + 1e-6


def test_when_all_fails_retries_are_bounded_by_the_ratio() -> None:
    budget = RetryBudget(0.2, 5)
    retries = 0
    for _ in range(1000):
        budget.earn()
        retries += sum(budget.again(error("server"), {"a"}, 1, {"a", "b"}, 0.0) is not None for _ in range(4))
    assert 200 <= retries <= 206


def test_what_is_tried_again_where() -> None:
    for kind in ("unreachable", "timeout", "server", "garbage", "auth", "missing", "quota"):
        assert where(error(kind, transient=True)) == where(error(kind)) == "elsewhere"
    assert where(error("rate_limit", transient=True)) == "anywhere"
    assert where(error("refused", transient=True)) == "anywhere"
    for kind in ("refused", "context_length"):
        assert where(error(kind)) == "nowhere"


def test_a_retry_goes_elsewhere_or_waits_or_is_none() -> None:
    budget = RetryBudget(1.0, 3)
    again = budget.again(error("server"), {"a"}, 1, {"a", "b"}, 0.0)
    assert again is not None and again.exclude == {"a"} and again.wait == 0.0
    assert budget.again(error("server"), {"a", "b"}, 2, {"a", "b"}, 0.0) is None
    again = budget.again(error("rate_limit", True, retry_after=2.0), {"a"}, 1, {"a"}, 0.0)
    assert again is not None and again.exclude == frozenset() and again.wait == 2.0
    assert budget.again(error("rate_limit", True), {"a"}, 3, {"a", "b"}, 0.0) is None, "attempts are bounded"
    assert budget.again(error("context_length"), {"a"}, 1, {"a", "b"}, 0.0) is None


@given(rate=st.floats(0.5, 200.0), seconds=st.floats(20.0, 60.0))
@settings(max_examples=30, deadline=None)
def test_the_drain_rate_is_what_it_is(rate: float, seconds: float) -> None:
    drain = DrainRate()
    for index in range(int(rate * seconds)):
        drain.ended(index / rate)
    now = int(rate * seconds) / rate
    assert 0.75 * rate <= drain.per_second(now) <= 1.25 * rate + 0.2
    assert drain.per_second(now + 200.0) < 0.01 * rate + 1e-6


@given(waiting=st.integers(0, 10_000), rate=st.floats(0.0, 1000.0), deadline=st.floats(0.0, 200.0), full=st.booleans())
@settings(deadline=None)
def test_patience_never_passes_a_deadline(waiting: int, rate: float, deadline: float, full: bool) -> None:
    admission = Admission(wait_seconds=60.0)
    try:
        patience = admission.patience(full, deadline, waiting, rate, 10.0)
    except Refused as refusal:
        assert refusal.kind == ("deadline" if deadline <= 10.0 else "line_full")
        assert (refusal.retry_after is None) == (refusal.kind == "deadline")
        assert refusal.retry_after is None or SOONEST <= refusal.retry_after <= LATEST
    else:
        assert not full
        assert 10.0 < patience.until <= min(deadline, 70.0)
        assert patience.why == ("deadline" if deadline <= 70.0 else "too_long")


def test_retry_after_is_how_long_the_line_takes() -> None:
    assert Admission().retry_after(100, 10.0) == 10.0
