"""The line: fairness between runs, taking out."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from silva.models.gateway.routing.line import Line

FEW = settings(max_examples=50, stateful_step_count=30, deadline=None)


class LineMachine(RuleBasedStateMachine):
    """Against a plain model: per run a list; what is popped is its run's oldest."""

    @initialize(bound=st.integers(1, 30))
    def begin(self, bound: int) -> None:
        self.line: Line[int] = Line(bound)
        self.model: dict[str, list[tuple[int, int]]] = {}
        self.next = 0
        self.bound = bound

    @rule(run=st.sampled_from("abcd"), share=st.sampled_from([0.25, 1.0, 4.0]))
    def push(self, run: str, share: float) -> None:
        self.next += 1
        if not self.line.full:
            place = self.line.push(run, self.next, share)
            self.model.setdefault(run, []).append((place, self.next))

    @rule()
    def pop(self) -> None:
        item = self.line.pop()
        if item is None:
            assert not any(self.model.values())
            return
        (run,) = [run for run, waiting in self.model.items() if waiting and waiting[0][1] == item]
        self.model[run].pop(0)

    @precondition(lambda self: any(self.model.values()))
    @rule(data=st.data())
    def take_out(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from([run for run, waiting in self.model.items() if waiting]))
        place, _ = self.model[run].pop(data.draw(st.integers(0, len(self.model[run]) - 1)))
        before = len(self.line)
        self.line.take_out(run, place)
        self.line.take_out(run, place)
        assert len(self.line) == before - 1, "once"

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "line"):
            assert len(self.line) == sum(map(len, self.model.values()))
            assert self.line.full == (len(self.line) >= self.bound)
            assert sorted(self.line.items()) == sorted(item for waiting in self.model.values() for _, item in waiting)


TestLine = LineMachine.TestCase
TestLine.settings = FEW


@given(
    shares=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 5.0]), min_size=2, max_size=6),
    count=st.integers(1, 300),
    ballast=st.lists(st.integers(0, 500), min_size=6, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_runs_with_something_waiting_are_served_by_their_shares(shares, count, ballast) -> None:
    line: Line[int] = Line(100_000)
    for run, share in enumerate(shares):
        for _ in range(count + 1 + ballast[run]):
            line.push(str(run), run, share)
    served = Counter[int]()
    for _ in range(count):
        run = line.pop()
        assert run is not None
        served[run] += 1
        for a, share_a in enumerate(shares):
            for b, share_b in enumerate(shares):
                assert served[a] / share_a - served[b] / share_b <= 1 / share_a + 1 / share_b + 1e-6


def test_a_flood_of_one_run_delays_another_by_one_request() -> None:
    line: Line[str] = Line(20_000)
    for _ in range(10_000):
        line.push("flood", "flood")
    for _ in range(500):
        line.pop()
    line.push("single", "single")
    assert "single" in {line.pop(), line.pop()}


def test_leaving_and_returning_gains_nothing() -> None:
    line: Line[str] = Line(10_000)
    for _ in range(1000):
        line.push("steady", "steady")
    served = Counter[str]()
    for _ in range(400):
        if "returning" not in line.items():
            line.push("returning", "returning")
        item = line.pop()
        assert item is not None
        served[item] += 1
    assert abs(served["steady"] - served["returning"]) <= 2


def test_an_endless_row_of_new_runs_starves_nobody() -> None:
    line: Line[str] = Line(10_000)
    for _ in range(1000):
        line.push("steady", "steady")
    served = Counter[str]()
    for n in range(300):
        line.push(f"new-{n}", "new")
        item = line.pop()
        assert item is not None
        served[item] += 1
    assert served["steady"] >= 20, "one of so many runs, yet never left out"


def test_a_taken_out_request_is_not_charged() -> None:
    line: Line[str] = Line(10_000)
    places = [line.push("a", "cancelled") for _ in range(100)]
    line.push("b", "b")
    for place in places:
        line.take_out("a", place)
    line.push("a", "a")
    assert {line.pop(), line.pop()} == {"a", "b"}
    assert line.pop() is None


def test_the_line_remembers_no_more_runs_than_it_must() -> None:
    line: Line[int] = Line(10)
    for n in range(2000):
        place = line.push(f"run-{n}", n)
        if n % 2:
            line.take_out(f"run-{n}", place)
        else:
            line.pop()
    assert len(line._runs) + len(line._tags) + len(line._shares) == 0
