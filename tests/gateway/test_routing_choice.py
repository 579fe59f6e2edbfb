"""Which backend is chosen: affinity that holds when backends come and go, bounded load, exclusion."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.gateway.routing.backend import Backend, BackendState
from silva.models.gateway.routing.breaker import Breaker
from silva.models.gateway.routing.choice import EXTRA, SLACK, choose, draw, why_nothing
from silva.models.gateway.routing.limiter import Limiter


def state(name: str, limit: int = 1000) -> BackendState:
    backend = Backend(name=name, url="http://127.0.0.1/v1")
    return BackendState(backend, Limiter(limit, 1, limit), Breaker(5, 5.0))


def home(session: str, states: list[BackendState]) -> BackendState:
    chosen = choose(states, 0.0, session)
    assert chosen is not None
    return chosen


def homes(states: list[BackendState], sessions: int = 3000) -> dict[str, str]:
    return {f"session-{n}": home(f"session-{n}", states).backend.name for n in range(sessions)}


@given(names=st.sets(st.text("abc-0123456789", min_size=1, max_size=6), min_size=2, max_size=8), data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_backend_that_leaves_moves_only_its_own_sessions(names: set[str], data: st.DataObject) -> None:
    states = [state(name) for name in sorted(names)]
    gone = data.draw(st.sampled_from(states))
    before, after = homes(states, 300), homes([one for one in states if one is not gone], 300)
    for session, home in before.items():
        assert after[session] == home or home == gone.backend.name


def test_a_backend_that_comes_takes_its_share_and_no_more() -> None:
    states = [state(f"http://127.0.0.1:{8000 + n}/v1") for n in range(4)]
    before, after = homes(states), homes([*states, state("new")])
    moved = [session for session in before if before[session] != after[session]]
    assert {after[session] for session in moved} == {"new"}
    assert 0.8 * 3000 / 5 <= len(moved) <= 1.2 * 3000 / 5


def test_sessions_of_a_backend_that_leaves_are_spread_over_all_others() -> None:
    states = [state(f"replica-{n}") for n in range(4)]
    before, after = homes(states), homes(states[1:])
    moved = Counter(after[session] for session in before if before[session] == "replica-0")
    assert len(moved) == 3
    assert max(moved.values()) < 1.35 * min(moved.values())


def test_the_order_is_the_same_in_every_process() -> None:
    assert draw("session-1", "a").hex() == "bb2c1f3cb8c73965"
    assert home("session-1", [state("a"), state("b"), state("c")]).backend.name == (
        home("session-1", [state("c"), state("a"), state("b")]).backend.name
    )


@given(sessions=st.lists(st.integers(0, 5), min_size=1, max_size=200), count=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_no_backend_is_overfull_while_another_has_room(sessions: list[int], count: int) -> None:
    states = [state(f"b{n}") for n in range(count)]
    for session in sessions:
        chosen = choose(states, 0.0, f"s{session}")
        assert chosen is not None
        chosen.outstanding += 1
        total = sum(one.outstanding for one in states)
        assert chosen.outstanding <= max(SLACK, (1 + EXTRA) * total / count, 1 + total // count)


def test_a_session_stays_while_its_backend_is_not_overfull() -> None:
    states = [state("a"), state("b"), state("c")]
    first = choose(states, 0.0, "mine")
    assert first is not None
    for one in states:
        one.outstanding = 20
    for _ in range(4):
        assert choose(states, 0.0, "mine") is first
        first.outstanding += 1
    first.outstanding = 40
    second = choose(states, 0.0, "mine")
    assert second is home("mine", [one for one in states if one is not first])


@given(loads=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 10), st.booleans()), min_size=1, max_size=8),
       session=st.sampled_from(["", "s"]), tried=st.sets(st.integers(0, 7)))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_what_is_chosen_may_be(loads: list[tuple[int, int, bool]], session: str, tried: set[int]) -> None:
    states = []
    for index, (outstanding, limit, healthy) in enumerate(loads):
        one = state(str(index), limit=limit)
        one.outstanding, one.healthy = outstanding, healthy
        states.append(one)
    exclude = {str(index) for index in tried}
    possible = [
        one for one in states if one.healthy and one.outstanding < one.limiter.limit and one.backend.name not in exclude
    ]
    chosen = choose(states, 0.0, session, exclude)
    if possible:
        assert chosen in possible
    else:
        assert chosen is None
        why = why_nothing(states, 0.0, exclude)
        healthy = [one for one in states if one.healthy]
        if not healthy:
            assert why == "absent"
        else:
            assert why == ("exhausted" if all(one.backend.name in exclude for one in healthy) else "busy")


def test_without_a_session_the_emptiest_is_chosen() -> None:
    states = [state("a"), state("b")]
    states[0].outstanding = 10
    for _ in range(20):
        chosen = choose(states, 0.0)
        assert chosen is not None
        chosen.outstanding += 1
        chosen.served += 1
    assert [one.outstanding for one in states] == [15, 15]


def test_open_draining_held_and_unhealthy_ones_are_left_alone() -> None:
    opened, draining, held, unhealthy, fine = (state(name) for name in ("o", "d", "h", "u", "f"))
    for _ in range(5):
        opened.breaker.failed(opened.breaker.begin(0.0), 0.0)
    draining.draining = True
    held.limiter.overloaded(0.0, 0.0, retry_after=10.0)
    unhealthy.healthy = False
    states = [opened, draining, held, unhealthy, fine]
    assert {choose(states, 1.0, f"s{n}") for n in range(50)} == {fine}
    assert why_nothing(states[:4], 1.0) == "held"
    assert why_nothing([opened, draining, unhealthy], 1.0) == "absent"
    assert min(at for one in states[:4] if (at := one.returns(1.0)) is not None) == 5.0
    assert choose(states[:4], 5.0) is opened, "one probe may pass"


def test_a_backends_token_is_not_shown() -> None:
    assert "secret" not in repr(Backend(name="a", url="http://h/v1", token="secret", headers={"x": "secret"}))
