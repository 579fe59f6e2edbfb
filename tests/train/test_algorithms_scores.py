"""Advantages of a group, and every group that has none."""

import statistics
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from algorithm_samples import group, sample
from hypothesis import given
from hypothesis import strategies as st

from silva.train.algorithms.advantages import Baseline, Dropped, advantages, score
from silva.train.algorithms.errors import GroupError

reward_lists = st.lists(st.floats(-100, 100).map(lambda value: round(value, 4)), min_size=2, max_size=16)


def scored(rewards: list[float], baseline: Baseline) -> list[float]:
    made = score(group(rewards), baseline)
    assert isinstance(made, list)
    return [float(each.advantages[2]) for each in made]


def test_baselines_give_the_numbers_of_their_papers():
    rewards = [1.0, 0.0, 0.0, 1.0, 1.0]
    assert scored(rewards, "mean") == pytest.approx([0.4, -0.6, -0.6, 0.4, 0.4])
    assert scored(rewards, "leave_one_out") == pytest.approx([0.5, -0.75, -0.75, 0.5, 0.5])
    spread = statistics.stdev(rewards) + 1e-4
    assert scored(rewards, "mean_std") == pytest.approx([(r - 0.6) / spread for r in rewards], rel=1e-6)


@given(reward_lists, st.sampled_from(["mean", "mean_std", "leave_one_out"]))
def test_advantages_sum_to_nothing_and_keep_the_order_of_rewards(rewards, baseline):
    values = advantages(np.array(rewards), baseline)
    assert abs(values.sum()) < 1e-6 * max(1.0, np.abs(values).max()) * len(rewards)
    ranked = sorted(zip(rewards, values, strict=True))
    assert all(b >= a - 1e-9 for (_, a), (_, b) in pairwise(ranked))


@given(reward_lists)
def test_leaving_one_out_is_the_mean_of_the_others(rewards):
    values = advantages(np.array(rewards), "leave_one_out")
    if max(rewards) - min(rewards) <= 1e-6:
        return
    for i, reward in enumerate(rewards):
        others = rewards[:i] + rewards[i + 1 :]
        assert values[i] == pytest.approx(reward - sum(others) / len(others), abs=1e-8)


def test_an_advantage_stands_where_there_is_loss_and_nowhere_else():
    made = score(group([0.0, 1.0]), "mean")
    assert isinstance(made, list)
    assert [each.advantages.tolist() for each in made] == [[0, 0, -0.5, -0.5], [0, 0, 0.5, 0.5]]
    assert made[0].advantages.dtype == np.float32
    assert [each.index for each in made] == [0, 1]


def test_a_trajectory_counts_once_in_however_many_segments():
    first, second = group([1.0, 0.0])
    more = replace(first, segment=1)
    last = replace(first, segment=2)
    made = score([first, more, last, second], "mean")
    assert isinstance(made, list)
    assert [float(each.advantages[3]) for each in made] == [0.5, 0.5, 0.5, -0.5]


def test_rewards_all_alike_drop_the_group_unless_it_is_kept():
    assert score(group([0.3, 0.3, 0.3])) == Dropped(reason="zero_variance", run_id="run", task_id="task")
    kept = score(group([0.3, 0.3, 0.3]), keep_zero_variance=True)
    assert isinstance(kept, list)
    assert all(not each.advantages.any() for each in kept)


def test_rewards_alike_but_for_rounding_make_no_advantage_of_it():
    assert isinstance(score(group([0.1 + 0.2, 0.3, 0.3])), Dropped)


def test_a_group_that_is_masked_all_over_is_dropped():
    assert score(group([0.0, 1.0], mask=np.zeros(4, bool))) == Dropped(reason="no_loss", run_id="run", task_id="task")


def changed(samples, at, **values):
    return [replace(each, **values) if i == at else each for i, each in enumerate(samples)]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([], "no samples"),
        (group([1.0]), "sample at least 2"),
        ([group([1.0])[0], replace(group([1.0])[0], segment=1)], "sample at least 2"),
        (changed(group([0.0, 1.0]), 1, task_id="other"), "task other"),
        (changed(group([0.0, 1.0]), 1, run_id="other"), "run other"),
        (group([0.0, float("nan")]), "reward nan"),
        (group([0.0, float("inf")]), "reward inf"),
        (changed(group([0.0, 1.0]), 1, versions=("v2",)), "v1, v2"),
        (changed(group([0.0, 1.0]), 1, versions=("v1", "v2")), "mixed_versions"),
        (
            changed(group([0.0, 1.0]), 1, logprobs=np.array([0, 0, -1, np.nan], np.float32)),
            "no logprob of the id at position 3",
        ),
        ([*group([0.0, 1.0]), group([0.0])[0]], "comes twice"),
        ([*group([0.0, 1.0]), replace(group([0.5])[0], segment=1)], "earlier segment"),
    ],
)
def test_groups_that_have_no_advantages_are_refused_by_name(samples, words):
    with pytest.raises(GroupError) as caught:
        score(samples)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mixed_versions_pass_where_they_are_allowed():
    mixed = changed(group([0.0, 1.0]), 1, versions=("v2",))
    assert isinstance(score(mixed, mixed_versions=True), list)


def test_unknown_logprobs_of_masked_ids_do_no_harm():
    masked = np.array([False, False, True, False])
    logprobs = np.array([0, 0, -1, np.nan], np.float32)
    assert isinstance(score(group([0.0, 1.0], mask=masked, logprobs=logprobs)), list)


def test_a_sample_says_which_it_is_when_refused():
    unknown = sample([1, 2], [1], reward=float("nan"), trajectory_id="abc")
    with pytest.raises(GroupError, match="abc"):
        score([unknown, unknown])
