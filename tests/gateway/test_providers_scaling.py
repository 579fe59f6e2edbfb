"""How many processes are wanted, and when crashed ones are started again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.gateway.providers.scaling import FIRST, LONGEST, STEADY, Restarts, Scaling


@given(
    least=st.integers(0, 3),
    more=st.integers(0, 6),
    target=st.integers(1, 10),
    history=st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(0, 100)), min_size=1, max_size=60),
)
@settings(deadline=None)
def test_up_at_once_down_late_and_always_within_bounds(least, more, target, history) -> None:
    most = max(least + more, 1)
    scaling = Scaling(least, most, target, 30.0)
    now, past = 0.0, []
    for seconds, load in history:
        now += seconds
        desired = min(max(-(-load // target), least), most)
        past.append((now, desired))
        assert scaling.wanted(load, now) == max(count for at, count in past if at >= now - 30.0)


def test_from_zero_and_back() -> None:
    scaling = Scaling(0, 4, 8, 10.0)
    assert scaling.wanted(0, 0.0) == 0
    assert scaling.wanted(1, 1.0) == 1
    assert scaling.wanted(9, 2.0) == 2
    assert scaling.wanted(1000, 3.0) == 4
    assert scaling.wanted(0, 12.9) == 4
    assert scaling.wanted(0, 13.1) == 0


def test_a_load_that_comes_and_goes_stops_nothing() -> None:
    scaling = Scaling(0, 4, 1, 10.0)
    assert {scaling.wanted(load, float(second)) for second, load in enumerate([3, 0, 0, 0, 0] * 20)} == {3}


@given(lives=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30))
@settings(deadline=None)
def test_restarts_wait_longer_with_every_crash_in_a_row(lives: list[float]) -> None:
    restarts, now, row = Restarts(), 0.0, 0
    for lived in lives:
        assert restarts.may_start(now)
        now += lived
        restarts.crashed(lived, now)
        row = 1 if lived >= STEADY else row + 1
        pause = min(LONGEST, FIRST * 2.0 ** (row - 1))
        assert not restarts.may_start(now + pause * 0.99)
        assert restarts.hopeful == (row == 1)
        now += pause
