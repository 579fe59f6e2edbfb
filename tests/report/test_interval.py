"""Intervals: the textbook one where attempts are single, honest ones where they come in groups."""

from __future__ import annotations

import itertools
import random
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.report.interval import mean, proportion, quantile, student
from silva.report.summary import passes

clusters = st.lists(st.lists(st.booleans(), max_size=8), min_size=1, max_size=12)


def test_single_attempts_give_wilsons_interval() -> None:
    # 8 of 10: the published value of the score interval.
    found = proportion([[True]] * 8 + [[False]] * 2)
    assert found is not None
    assert (found.value, found.n, found.clusters) == (0.8, 10, 10)
    assert found.low == pytest.approx(0.4902, abs=5e-5)
    assert found.high == pytest.approx(0.9433, abs=5e-5)


def test_attempts_that_always_agree_count_as_one_task_each() -> None:
    repeated = proportion([[True] * 16] * 8 + [[False] * 16] * 2)
    single = proportion([[True]] * 8 + [[False]] * 2)
    assert repeated is not None and single is not None
    assert (repeated.low, repeated.high) == pytest.approx((single.low, single.high))


def test_all_successes_do_not_make_certainty() -> None:
    found = proportion([[True] * 4] * 5)
    assert found is not None and found.low is not None
    assert found.high == 1.0
    assert found.low == pytest.approx(0.5655, abs=5e-5), "Wilson on five tasks, not on twenty attempts"


@given(clusters)
def test_the_interval_holds_the_estimate_and_stays_in_range(values: list[list[bool]]) -> None:
    found = proportion(values)
    if found is None:
        assert not any(values)
        return
    assert found.low is not None and found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.n == sum(map(len, values))


@pytest.mark.parametrize(("tasks", "tries"), [(5, 4), (10, 16), (30, 1), (30, 8)])
def test_intervals_cover_the_truth(tasks: int, tries: int) -> None:
    draw = random.Random(tasks * 100 + tries)
    truth = 1.2 / 4.2
    hits = 0
    for _ in range(600):
        drawn = [draw.betavariate(1.2, 3.0) for _ in range(tasks)]
        found = proportion([[draw.random() < chance for _ in range(tries)] for chance in drawn])
        assert found is not None and found.low is not None and found.high is not None
        hits += found.low <= truth <= found.high
    # Nominal 95 %; three standard errors of 600 draws are 2.7 %. A naive interval covers about 0.6 at (10, 16).
    assert hits / 600 >= 0.92


def test_mean_of_single_values_is_students_interval() -> None:
    found = mean([[0.2], [0.4], [0.9]])
    assert found is not None and found.low is not None and found.high is not None
    assert found.value == pytest.approx(0.5)
    # sd 0.36056, standard error 0.20817, t(2) 4.30265
    assert found.high - found.value == pytest.approx(0.89567, abs=1e-4)


def test_one_task_cannot_say_how_tasks_differ() -> None:
    found = mean([[0.2, 0.4, 0.6]])
    assert found is not None
    assert (found.value, found.low, found.high) == (pytest.approx(0.4), None, None)


def test_equal_scores_keep_an_interval() -> None:
    found = mean([[1.0], [1.0], [1.0]], within=(0, 1))
    assert found is not None and found.low is not None
    assert (found.low, found.high) == (pytest.approx(0.025 ** (1 / 3)), 1.0)


@pytest.mark.parametrize("change", [0.0, 0.5, -1.0])
def test_tasks_that_all_change_alike_leave_others_free_to_differ(change: float) -> None:
    found = mean([[change]] * 20, within=(-1, 1))
    assert found is not None and found.low is not None and found.high is not None
    share = 1 - 0.025 ** (1 / 20)  # 0.168
    assert found.low == pytest.approx(change - share * (change + 1))
    assert found.high == pytest.approx(change + share * (1 - change))


def test_agreement_up_to_rounding_is_agreement() -> None:
    found = mean([[0.1 + 0.2 - 0.3], [0.0], [0.0]], within=(-1, 1))
    assert found is not None and found.low is not None and found.low < -0.5


def test_tasks_that_agree_on_a_value_of_no_known_range_have_no_interval() -> None:
    found = mean([[7.0], [7.0], [7.0]])
    assert found is not None
    assert (found.value, found.low, found.high) == (7.0, None, None)


@pytest.mark.parametrize(("tasks", "otherwise"), [(2, 0.7), (5, 0.4), (20, 0.1), (60, 0.03)])
def test_intervals_of_agreeing_tasks_miss_the_truth_in_few_draws(tasks: int, otherwise: float) -> None:
    # Of all tasks a share `otherwise` is repaired (+1), the rest unchanged (0); draws that agree must hold the mean.
    draw = random.Random(tasks)
    missed = 0
    for _ in range(2000):
        found = mean([[float(draw.random() < otherwise)] for _ in range(tasks)], within=(-1, 1))
        assert found is not None and found.low is not None and found.high is not None
        agree = found.value in (0.0, 1.0)
        missed += agree and not found.low <= otherwise <= found.high
    assert missed / 2000 <= 0.05 + 0.015


@given(st.lists(st.lists(st.floats(-1, 1), max_size=4), min_size=1, max_size=8))
def test_a_mean_lies_in_its_interval_and_that_in_its_range(values: list[list[float]]) -> None:
    found = mean(values, within=(-1, 1))
    if found is None or found.low is None or found.high is None:
        assert found is None or found.clusters < 2
        return
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (3, 3.182), (5, 2.571), (10, 2.228), (100, 1.984)])
def test_student_quantiles_match_the_tables(freedom: int, value: float) -> None:
    assert student(freedom) == pytest.approx(value, abs=0.005)


def test_nothing_gives_nothing() -> None:
    assert proportion([]) is None
    assert proportion([[], []]) is None
    assert mean([[]]) is None
    assert passes([]) == ()


def test_pass_at_k_is_the_share_of_draws_that_hold_a_success() -> None:
    # One task: 2 of 5 succeed. Of the 10 pairs, 3 hold no success and 1 holds only successes.
    found = {item.k: item for item in passes([[True, True, False, False, False]])}
    assert found[1].any == found[1].all == pytest.approx(0.4)
    assert found[2].any == pytest.approx(7 / 10)
    assert found[2].all == pytest.approx(1 / 10)
    assert found[4].any == 1.0
    assert found[3].all == 0.0


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=7), min_size=1, max_size=6))
def test_more_tries_help_one_of_k_and_hurt_all_of_k(verdicts: list[list[bool]]) -> None:
    smallest = min(map(len, verdicts))
    found = passes(verdicts)[:smallest]  # beyond it the tasks counted differ
    for before, after in itertools.pairwise(found):
        assert after.any >= before.any - 1e-12
        assert after.all <= before.all + 1e-12
    n, c = len(verdicts[0]), sum(verdicts[0])
    alone = passes(verdicts[:1])[-1]
    assert alone.any == pytest.approx(1 - comb(n - c, n) / comb(n, n))


def test_quantiles_interpolate() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([1, 2], 0.95) == pytest.approx(1.95)
    assert quantile([7], 0.95) == 7
    assert quantile([], 0.5) == 0
