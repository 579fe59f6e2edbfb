"""What stands before the loss: teachers, preferences, totals, names and parameters. None of it needs torch."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from algorithm_samples import sample

from silva.errors import UsageError
from silva.train.algorithms import algorithm
from silva.train.algorithms.errors import BatchError, PairError, TeacherError
from silva.train.algorithms.preference import Preference, laid_out
from silva.train.algorithms.teacher import TeacherLogprobs, aligned
from silva.train.algorithms.totals import Totals, loss_positions
from silva.train.pairs import parting

ONE = sample([4, 5, 6, 7], [2, 3], trajectory_id="abc")


def teacher(**changed):
    told = {"ids": ONE.ids, "logprobs": np.array([np.nan, -1, -2, -3], np.float32), "tokenizer": "t1", "model": "big"}
    return TeacherLogprobs(**{**told, **changed})


def tops(*rows: list[float]) -> np.ndarray:
    return np.array([[-1.0, -2.0], [-1.0, -2.0], *rows], np.float32)


def test_a_teacher_that_read_the_sample_passes_though_it_is_silent_where_there_is_no_loss():
    assert aligned(ONE, teacher(), tokenizer="t1").model == "big"
    ids = np.array([[1, 2]] * 4, np.int32)
    assert aligned(ONE, teacher(top_ids=ids, top_logprobs=tops([-0.5, -1.5], [-0.1, -9]))).top_ids is ids


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "no logprobs of a teacher"),
        (teacher(tokenizer="t2"), "another tokenizer"),
        (teacher(ids=ONE.ids[:3]), "3 ids for 4"),
        (teacher(logprobs=np.zeros(5, np.float32)), "5 logprobs for 4"),
        (teacher(ids=np.array([4, 5, 9, 7], np.int32)), "read id 9 at position 2 where the sample has 6"),
        (teacher(logprobs=np.array([0, 0, -1, np.nan], np.float32)), "logprob nan at position 3"),
        (teacher(logprobs=np.array([0, 0, -np.inf, -1], np.float32)), "logprob -inf at position 2"),
        (teacher(logprobs=np.array([0, 0, 0.5, -1], np.float32)), "logprob 0.5 at position 2"),
        (teacher(top_ids=np.zeros((4, 2), np.int32)), "not both"),
        (teacher(top_ids=np.zeros((3, 2), np.int32), top_logprobs=np.zeros((3, 2), np.float32)), "shape (3, 2)"),
        (teacher(top_ids=np.zeros((4, 2), np.int32), top_logprobs=tops([-1, -2], [-1, -2])), "one top id twice"),
        (
            teacher(top_ids=np.array([[1, 2]] * 4, np.int32), top_logprobs=tops([-0.1, -0.1], [-1, -2])),
            "sum to 1.8",
        ),
        (
            teacher(top_ids=np.array([[1, 2]] * 4, np.int32), top_logprobs=tops([-1, np.nan], [-1, -2])),
            "logprob nan at position 2",
        ),
    ],
)
def test_a_teacher_of_other_tokens_is_refused_by_name(given, words):
    with pytest.raises(TeacherError) as caught:
        aligned(ONE, given, tokenizer="t1")
    assert words in str(caught.value)
    assert "abc" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_step_has_loss_on_the_last_action_alone():
    chosen, rejected = sample([1, 2, 3, 4, 5, 6], [1, 2, 4, 5]), sample([1, 2, 3, 4, 9], [1, 2, 4])
    made = Preference.step(chosen, rejected)
    assert made.chosen.mask.tolist() == [False, False, False, False, True, True]
    assert made.rejected.mask.tolist() == [False, False, False, False, True]
    assert [each.ids.tolist() for each in laid_out([made])] == [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9]]


def test_a_pair_is_cut_where_its_walks_part():
    chosen, rejected = sample([1, 2, 3, 4, 5, 6], [1, 2, 4, 5]), sample([1, 2, 8, 8, 9], [1, 2, 4])
    pair = parting(chosen, rejected)
    assert pair is not None
    made = Preference.of(pair)
    assert made.chosen.ids.tolist() == [1, 2, 3] and made.rejected.ids.tolist() == [1, 2, 8]
    assert made.chosen.mask.tolist() == made.rejected.mask.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("chosen", "rejected", "words"),
    [
        (sample([1, 2, 3], [2]), sample([1, 7, 4], [2]), "contexts before their first actions differ"),
        (sample([1, 2, 3], [2]), sample([1, 2, 4], []), "no action"),
        (sample([1, 2, 3], [2]), sample([1, 2, 3], [2]), "the same"),
        (sample([1, 2, 3], [2]), sample([1, 2, 4], [2], mask=np.zeros(3, bool)), "is masked"),
        (sample([1, 2, 3, 4], [1, 3]), sample([1, 2, 5], [1, 2]), "contexts before their first actions differ"),
    ],
)
def test_steps_that_do_not_answer_one_context_are_refused(chosen, rejected, words):
    with pytest.raises(PairError, match=words):
        Preference.step(chosen, rejected)


def test_a_side_without_loss_is_refused():
    with pytest.raises(PairError, match="rejected side"):
        Preference(chosen=sample([1, 2, 3], [2]), rejected=sample([1, 2, 4], []))


def test_totals_count_weights_and_samples_with_loss():
    heavy = replace(ONE, weights=np.array([9, 9, 2.0, 0.5], np.float32))
    made = Totals.of([ONE, heavy, sample([1, 2], [])], pairs=3)
    assert made == Totals(tokens=4.5, sequences=2, pairs=3)
    assert made + made == Totals(tokens=9.0, sequences=4, pairs=6)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([sample([1, 2], [0])], "position 0"),
        ([sample([1, 2], [1], weights=np.array([1, -1], np.float32))], "weight at position 1 is -1"),
        ([sample([1, 2], [1], weights=np.array([1, np.nan], np.float32))], "weight at position 1 is nan"),
        ([sample([1, 2], [])], "no position carries loss"),
        ([sample([1, 2], [1], weights=np.zeros(2, np.float32))], "no position carries loss"),
    ],
)
def test_a_step_that_cannot_be_counted_is_refused(samples, words):
    with pytest.raises(BatchError, match=words):
        Totals.of(samples)


def test_positions_with_loss_are_those_of_the_mask():
    assert loss_positions(ONE).tolist() == [2, 3]


def test_an_unknown_algorithm_names_those_there_are():
    with pytest.raises(UsageError, match="sft, dpo, grpo, opd"):
        algorithm("ppo")


def test_reading_groups_pairs_and_teachers_loads_no_torch():
    code = (
        "import sys; import silva.train.algorithms, silva.train.algorithms.advantages, silva.train.algorithms.teacher, "
        "silva.train.algorithms.preference, silva.train.algorithms.totals; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_torch_an_algorithm_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from silva.errors import MissingError\n"
        "from silva.train.algorithms import algorithm\n"
        "try:\n    algorithm('sft')\nexcept MissingError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "pip install 'silva[train]'" in said
