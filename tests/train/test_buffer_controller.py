"""The controller keeps what its docstring promises, whatever is called in whatever order."""

from __future__ import annotations

import pytest
from buffer_groups import group, header
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from silva.train.buffer import JobConfig, Refused
from silva.train.buffer.controller import Controller
from silva.train.buffer.events import Event, read, write
from silva.train.buffer.group import Group

TERMS = st.builds(
    JobConfig,
    bound=st.integers(0, 3),
    groups_per_step=st.integers(1, 4),
    order=st.sampled_from(["fifo", "freshest"]),
    stragglers=st.sampled_from(["wait", "withhold"]),
)


def grown(controller: Controller, name: str, *versions: int) -> None:
    controller.start([name])
    controller.enter(header(name, *(versions or (controller.version,))))


def taken(controller: Controller, after: int, count: int) -> list[str]:
    numbers, _ = controller.take(after, count)
    return [controller.delivered[number - 1] for number in numbers]


class AnyCalls(RuleBasedStateMachine):
    """Everyone may call everything."""

    @initialize(terms=TERMS)
    def begin(self, terms: JobConfig) -> None:
        self.terms = terms
        self.controller = Controller(terms)
        self.events: list[Event] = []
        self.count = 0
        self.entered: list[str] = []
        self.first_order: list[str] = []

    def keep(self, event: Event | None) -> None:
        if event is not None:
            self.events.append(event)

    def new(self) -> str:
        self.count += 1
        return f"g{self.count}"

    @rule(count=st.integers(1, 6))
    def start(self, count: int) -> None:
        names = [self.new() for _ in range(count)]
        permits = self.controller.permits()
        admission, event = self.controller.start(names)
        self.keep(event)
        assert list(admission.admitted) == names[:permits]
        again, nothing = self.controller.start(names[:permits])
        assert again == admission and nothing is None
        if event is not None:
            status = self.controller.status()
            outstanding = status.in_flight + status.ready + status.taken
            trained_now = sum(
                self.controller.version_of(number) == status.version for number in range(1, status.committed + 1)
            )
            assert outstanding + trained_now <= (status.bound + 1) * status.groups_per_step

    @precondition(lambda self: self.controller.in_flight)
    @rule(data=st.data(), back=st.integers(0, 5), ahead=st.booleans())
    def bring_started(self, data: st.DataObject, back: int, ahead: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.in_flight)))
        versions = {max(0, self.controller.version - back), self.controller.version + ahead}
        assume(max(versions) <= self.controller.newest + 1)
        receipt, event = self.controller.enter(header(name, *versions))
        self.keep(event)
        self.entered.append(name)
        assert receipt.sequence == len(self.entered)
        again, nothing = self.controller.enter(header(name, *versions))
        assert again.again and again.sequence == receipt.sequence and nothing is None

    @rule(back=st.integers(0, 5))
    def bring_unannounced(self, back: int) -> None:
        name = self.new()
        brought = header(name, max(0, self.controller.version - back))
        stale = self.controller.version - brought.oldest > self.terms.bound
        had_room = self.controller.permits() > 0
        try:
            receipt, event = self.controller.enter(brought)
        except Refused as refused:
            assert refused.kind == "full" and not had_room and not stale
            return
        assert receipt.state == ("withheld" if stale else "ready")
        self.keep(event)
        self.entered.append(name)

    @precondition(lambda self: self.controller.in_flight)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.in_flight)))
        count, event = self.controller.abandon([name, name, "unknown"])
        self.keep(event)
        assert count == 1

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        before = len(self.controller.delivered)
        after = self.controller.committed
        try:
            numbers, event = self.controller.take(after, count)
        except Refused as refused:
            assert refused.kind == "conflict"
            return
        self.keep(event)
        for number in numbers:
            name = self.controller.delivered[number - 1]
            if number > before:
                assert self.controller.version - self.controller.headers[name].oldest <= self.terms.bound
                self.first_order.append(name)
            else:
                assert name == self.first_order[number - 1]
        assert self.controller.take(after, count)[0] == numbers or len(numbers) < count

    @rule(data=st.data(), next_version=st.booleans())
    def commit(self, data: st.DataObject, next_version: bool) -> None:
        controller = self.controller
        cursor = data.draw(st.integers(controller.committed, len(controller.delivered)))
        back = data.draw(st.integers(controller.checkpointed, cursor))
        try:
            event = controller.commit(cursor, controller.version + next_version, back)
        except Refused as refused:
            assert refused.kind == "conflict"
            return
        self.keep(event)
        assert controller.commit(cursor, controller.version, back) is None

    @rule(data=st.data(), back=st.integers(0, 3))
    def rewind(self, data: st.DataObject, back: int) -> None:
        controller = self.controller
        cursor = data.draw(st.integers(controller.checkpointed, controller.committed))
        try:
            self.keep(controller.rewind(cursor, max(0, controller.version - back)))
        except Refused as refused:
            assert refused.kind == "conflict"

    @rule()
    def die_and_come_back(self) -> None:
        again = Controller(self.terms)
        for event in self.events:
            again.apply(read(write(event)))
        mine, other = vars(self.controller), vars(again)
        assert mine == other
        assert list(self.controller.ready) == list(again.ready)
        self.controller = again

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "controller"):
            return
        controller = self.controller
        places = [*controller.ready, *controller.withheld, *controller.delivered]
        assert sorted(places) == sorted(self.entered)
        assert controller.delivered == self.first_order
        assert not set(controller.in_flight) & set(places)
        assert all(controller.state(name) for name in places)
        kept = set(controller.ready) | set(controller.withheld) | set(controller.delivered[controller.checkpointed :])
        assert set(controller.headers) == kept
        status = controller.status()
        assert 0 <= status.permits <= (status.bound + 1) * status.groups_per_step
        assert status.entered == status.ready + status.withheld + status.delivered


class GoodManners(RuleBasedStateMachine):
    """Groups are announced, drawn by the policy of the time, and every step is full: nothing may get too stale."""

    @initialize(bound=st.integers(0, 3), per_step=st.integers(1, 4), order=st.sampled_from(["fifo", "freshest"]))
    def begin(self, bound: int, per_step: int, order: str) -> None:
        terms = JobConfig.model_validate({"bound": bound, "groups_per_step": per_step, "order": order})
        self.controller = Controller(terms)
        self.per_step = per_step
        self.count = 0
        self.started_at: dict[str, int] = {}

    @rule(count=st.integers(1, 12))
    def start(self, count: int) -> None:
        names = [f"g{self.count + index}" for index in range(count)]
        self.count += count
        for name in self.controller.start(names)[0].admitted:
            self.started_at[name] = self.controller.version

    @precondition(lambda self: self.controller.in_flight)
    @rule(data=st.data())
    def bring(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.in_flight)))
        oldest = data.draw(st.integers(self.started_at[name], self.controller.version))
        self.controller.enter(header(name, oldest, self.controller.version))

    @precondition(lambda self: self.controller.in_flight)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self.controller.abandon([data.draw(st.sampled_from(sorted(self.controller.in_flight)))])

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        controller = self.controller
        if len(controller.delivered) - controller.committed == self.per_step:
            return
        waiting, ready = bool(controller.in_flight), bool(controller.ready)
        before = len(controller.delivered)
        controller.take(before, count)
        if ready and not waiting:
            assert len(controller.delivered) > before

    @precondition(lambda self: len(self.controller.delivered) - self.controller.committed == self.per_step)
    @rule()
    def train(self) -> None:
        self.controller.commit(len(self.controller.delivered), self.controller.version + 1)

    @invariant()
    def nothing_gets_too_stale(self) -> None:
        if hasattr(self, "controller"):
            assert not self.controller.withheld
            assert not self.controller.status().late


LESS = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MORE = settings(max_examples=400, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TestAnyCalls = AnyCalls.TestCase
TestAnyCalls.settings = LESS
TestGoodManners = GoodManners.TestCase
TestGoodManners.settings = LESS


@pytest.mark.slow
@pytest.mark.parametrize("machine", [AnyCalls, GoodManners])
def test_long_sequences_of_calls(machine: type[RuleBasedStateMachine]) -> None:
    case = type(f"Long{machine.__name__}", (machine,), {}).TestCase
    case.settings = MORE
    case("runTest").runTest()


def test_bound_0_lets_generation_and_training_take_turns() -> None:
    controller = Controller(JobConfig(bound=0, groups_per_step=2))
    assert controller.start(["a", "b", "c"])[0].admitted == ("a", "b")
    for name in ("a", "b"):
        controller.enter(header(name, 0))
    assert controller.permits() == 0
    assert taken(controller, 0, 9) == ["a", "b"]
    assert controller.permits() == 0
    controller.commit(2, 1)
    assert controller.permits() == 2


def test_bound_1_grows_the_next_step_while_this_one_is_trained() -> None:
    controller = Controller(JobConfig(bound=1, groups_per_step=2))
    assert controller.start([*"abcde"])[0].admitted == (*"abcd",)
    for name in "ab":
        controller.enter(header(name, 0))
    assert taken(controller, 0, 2) == ["a", "b"]
    assert controller.status().in_flight == 2  # grown while a and b are trained
    controller.commit(2, 1)
    assert controller.start(["e", "f", "g"])[0].admitted == ("e", "f")
    for name in "cd":
        controller.enter(header(name, 0))
    assert taken(controller, 2, 2) == ["c", "d"]
    assert [controller.staleness(number) for number in (3, 4)] == [1, 1]


def test_what_gets_too_stale_is_withheld_counted_and_listed() -> None:
    controller = Controller(JobConfig(bound=0, groups_per_step=2))
    grown(controller, "a")
    grown(controller, "b", 0)
    assert taken(controller, 0, 1) == ["a"]
    controller.commit(1, 1)  # the trainer makes a version of half a step
    assert controller.status().withheld == 1
    assert [(each.sequence, each.header.id) for each in controller.withheld_after(0, 10)] == [(2, "b")]
    assert controller.withheld_after(2, 10) == []
    assert controller.state("b") == "withheld"
    assert taken(controller, 1, 2) == []
    assert controller.permits() == 2


def test_a_step_waits_for_a_straggler_that_would_get_too_stale_or_goes_on() -> None:
    for stragglers, found in (("wait", ["b", "c"]), ("withhold", ["b", "c", "d"])):
        controller = Controller(JobConfig.model_validate({"bound": 0, "groups_per_step": 3, "stragglers": stragglers}))
        controller.start(["slow", "b", "c"])
        for name in ("b", "c"):
            controller.enter(header(name, 0))
        controller.abandon(["none of them"])
        assert taken(controller, 0, 3) == ["b", "c"]
        if stragglers == "withhold":
            controller.commit(2, 1)
            controller.start(["d"])
            controller.enter(header("d", 1))
            receipt, _ = controller.enter(header("slow", 0))
            assert receipt.state == "withheld"
            assert taken(controller, 2, 3) == ["d"]
        assert controller.delivered == found


def test_freshest_first_takes_the_newest_that_does_not_cost_an_older_one() -> None:
    terms = {"bound": 2, "groups_per_step": 2, "order": "freshest"}
    controller = Controller(JobConfig.model_validate(terms))
    controller.start([*"abcdef"])
    for name in "ab":
        controller.enter(header(name, 0))
    assert taken(controller, 0, 2) == ["a", "b"]
    controller.commit(2, 1)
    for name, version in zip("cdef", (0, 0, 1, 1), strict=True):
        controller.enter(header(name, version))
    assert taken(controller, 2, 2) == ["e", "f"]
    controller.commit(4, 2)
    grown(controller, "g")  # newer, but c and d are due now
    grown(controller, "h")
    assert taken(controller, 4, 2) == ["c", "d"]
    assert not controller.withheld


def test_a_step_takes_no_more_than_its_groups_and_says_so() -> None:
    controller = Controller(JobConfig(bound=1, groups_per_step=1))
    grown(controller, "a")
    grown(controller, "b")
    assert taken(controller, 0, 5) == ["a"]
    with pytest.raises(Refused, match="commit them with version 1"):
        controller.take(1, 1)
    with pytest.raises(Refused, match="versions rise by one"):
        controller.commit(1, 2)
    controller.commit(1)
    with pytest.raises(Refused, match="all its groups"):
        controller.take(1, 1)
    controller.commit(1, 1)
    assert taken(controller, 1, 1) == ["b"]
    with pytest.raises(Refused, match="hand-outs up to 2"):
        controller.commit(1, 2)


def test_a_trainer_goes_back_to_its_checkpoint_and_gets_the_same() -> None:
    controller = Controller(JobConfig(bound=1, groups_per_step=2))
    for step in range(3):
        for name in "ab":
            grown(controller, f"{name}{step}")
        taken(controller, 2 * step, 2)
        controller.commit(2 * step + 2, step + 1, 2 if step else 0)
    grown(controller, "late")
    with pytest.raises(Refused, match="rewind to a checkpoint first"):
        controller.take(2, 2)
    with pytest.raises(Refused, match="possible are 2 to 6"):
        controller.rewind(0, 0)
    with pytest.raises(Refused, match="the policy was at 0 to 1"):
        controller.rewind(2, 2)
    controller.rewind(2, 1)
    assert controller.status().version == 1
    replayed = []
    for step in (1, 2):
        replayed += taken(controller, 2 * step, 9)
        with pytest.raises(Refused, match="all its groups"):
            controller.take(2 * step + 2, 1)
        controller.commit(2 * step + 2, step + 1)
    assert replayed == ["a1", "b1", "a2", "b2"]
    assert taken(controller, 6, 1) == ["late"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Group(id="a b", versions=(0,), rewards=(1.0,), samples=(b"",)), "printable ASCII"),
        (Group(id="a", versions=(0,), rewards=(), samples=()), "0 samples"),
        (Group(id="a", versions=(0,), rewards=(1.0,), samples=(b"", b"")), "1 rewards for 2"),
        (Group(id="a", versions=(0,), rewards=(1.0, float("nan")), samples=(b"", b"")), "reward 1 is nan"),
        (Group(id="a", versions=(), rewards=(1.0,), samples=(b"",)), "no policy version"),
        (Group(id="a", versions=(-1,), rewards=(1.0,), samples=(b"",)), "numbers from 0"),
    ],
)
def test_what_is_no_whole_group_is_refused_by_name(bad: Group, said: str) -> None:
    with pytest.raises(Refused, match=said):
        bad.header()


def test_groups_of_another_size_without_rewards_or_of_the_future_are_refused() -> None:
    controller = Controller(JobConfig(group_size=2))
    with pytest.raises(Refused, match=r"has 1 sample, the job's groups have 2"):
        controller.enter(group("a", 0, size=1).header())
    with pytest.raises(Refused, match="drawn by version 7, but the job is at 0"):
        controller.enter(header("a", 7))
    unscored = Group(id="a", versions=(0,), rewards=(1.0, None), samples=(b"", b""))
    with pytest.raises(Refused, match="sample 1 has no reward"):
        controller.enter(unscored.header())
    Controller(JobConfig(rewards=False)).enter(unscored.header())
    assert controller.status().entered == 0
