"""The breaker, the limiter, the retry budget and the drain rate: their specifications, against any history."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from silva.models import ModelError
from silva.models.gateway.routing.attempts import EARNED_MOST, FLOOR, Attempts, RetryBudget
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.breaker import Breaker
from silva.models.gateway.routing.fleet import Fleet
from silva.models.gateway.routing.limiter import Limiter

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
    @rule(data=st.data(), fine=st.booleans())
    def end(self, data: st.DataObject, fine: bool) -> None:
        began, used = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before = self.limiter.limit
        if fine:
            self.limiter.succeeded(used)
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
                limiter.succeeded(used)
            else:
                limiter.overloaded(began, now)
        seen.append(limiter.limit)
    settled = seen[100:]
    assert capacity * 0.6 <= min(settled) <= max(settled) <= capacity * 1.1


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
    assert retries <= min(EARNED_MOST, requests * ratio) + requests * ratio + FLOOR + now
    assert retries <= requests * ratio + FLOOR + now + 1e-6


def fleet(*names: str) -> Fleet:
    """Backends that are all well."""
    made = Fleet(clock=lambda: 0.0)
    for name in names:
        made.add(Backend(name=name, url="http://127.0.0.1:1/v1"))
    return made


async def test_when_all_fails_retries_are_bounded_by_the_ratio() -> None:
    budget, both = RetryBudget(0.2, 5), fleet("a", "b")
    for _ in range(1000):
        attempts = Attempts(both, budget)
        for name in ("a", "b"):
            await attempts.again(error("server"), name)
    assert 200 <= budget.made <= 206


@pytest.mark.parametrize("kind", ["unreachable", "timeout", "server", "garbage", "auth", "missing", "quota"])
async def test_a_backends_own_trouble_is_tried_elsewhere_alone(kind: str) -> None:
    attempts = Attempts(fleet("a", "b"), RetryBudget(1.0, 5))
    assert await attempts.again(error(kind), "a") and attempts.exclude == {"a"}
    assert not await attempts.again(error(kind, transient=True), "b"), "no other is left"


@pytest.mark.parametrize("kind", ["rate_limit", "refused"])
async def test_what_passes_is_tried_elsewhere_and_then_again(kind: str) -> None:
    attempts = Attempts(fleet("a", "b"), RetryBudget(1.0, 3))
    passing = error(kind, transient=True, retry_after=0.01)
    assert await attempts.again(passing, "a") and attempts.exclude == {"a"}
    assert await attempts.again(passing, "b") and attempts.exclude == frozenset()
    assert not await attempts.again(passing, "a"), "attempts are bounded"


async def test_what_is_tried_nowhere() -> None:
    for kind in ("refused", "context_length"):
        assert not await Attempts(fleet("a", "b"), RetryBudget(1.0, 3)).again(error(kind), "a")
    late = error("rate_limit", transient=True, retry_after=2.0)
    assert not await Attempts(fleet("a"), RetryBudget(1.0, 3), deadline=1.0).again(late, "a")
    assert not await Attempts(fleet("a"), RetryBudget(1.0, 3), wait_seconds=1.0).again(late, "a")
