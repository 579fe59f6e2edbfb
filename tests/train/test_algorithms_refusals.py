"""Batches and parameters that an algorithm refuses, each by name."""

from dataclasses import replace

import pytest
from algorithm_numbers import made

from silva.errors import UsageError
from silva.train.algorithms import algorithm
from silva.train.algorithms.errors import BatchError
from silva.train.algorithms.totals import Totals

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "told", "without", "words"),
    [
        ("grpo", {}, "sampled_logprobs", "grpo: the batch has no sampled_logprobs"),
        ("grpo", {"kl": 0.1}, "reference_logprobs", "grpo: the batch has no reference_logprobs"),
        ("grpo", {"distillation": {}}, "teacher_logprobs", "has no teacher_logprobs"),
        ("opd", {}, "teacher_logprobs", "opd: the batch has no teacher_logprobs"),
        ("opd", {"form": "forward_kl"}, "top_logprobs", "opd: the batch has no top_logprobs"),
        ("dpo", {}, "reference_logprobs", "dpo: the batch has no reference_logprobs"),
        ("dpo", {}, ("chosen", "rejected"), "dpo: the batch has no chosen"),
    ],
)
def test_a_batch_without_what_is_needed_is_refused(name, told, without, words):
    batch, _ = made(1, [2, 3], pairs=True)
    lacking = dict.fromkeys([without] if isinstance(without, str) else without)
    with pytest.raises(BatchError, match=words):
        algorithm(name, told).loss(replace(batch, **lacking))


@pytest.mark.parametrize("field", ["sampled_logprobs", "reference_logprobs", "advantages"])
def test_a_number_that_is_none_is_refused_with_its_place(field):
    batch, _ = made(1, [2, 3])
    numbers = getattr(batch, field).clone()
    numbers[3] = float("nan")
    with pytest.raises(BatchError, match=rf"{field} is not a finite number at position 3 of the batch \(sample 1\)"):
        algorithm("grpo", {"kl": 0.1}).loss(replace(batch, **{field: numbers}))


def test_a_step_in_which_nothing_counts_is_refused():
    import torch

    batch, _ = made(1, [2, 3])
    for name in ("sft", "grpo", "opd"):
        with pytest.raises(BatchError, match="no position carries loss"):
            algorithm(name).loss(replace(batch, mask=torch.zeros(5)))


def test_a_batch_in_which_nothing_counts_adds_nothing_to_its_step():
    import torch

    batch, _ = made(1, [2, 3])
    silent = replace(batch, mask=torch.zeros(5), totals=Totals(tokens=7.0, sequences=3))
    for name in ("sft", "grpo", "opd"):
        for how in ({}, {"normalise": "sequence"}):
            loss = algorithm(name, how).loss(silent)
            loss.value.backward()
            assert float(loss.value.detach()) == 0.0
    assert not batch.logprobs.grad.any()


def test_a_pair_with_an_empty_side_is_refused():
    import torch

    batch, _ = made(1, [2, 3, 1, 2], pairs=True)
    mask = torch.ones(8)
    mask[5] = 0
    with pytest.raises(BatchError, match="pair 1 of the batch has a side without loss"):
        algorithm("dpo").loss(replace(batch, mask=mask))


def test_collating_what_does_not_fit_is_refused():
    import torch
    from algorithm_samples import sample

    from silva.train.algorithms.batch import collate
    from silva.train.algorithms.errors import TeacherError

    one = sample([1, 2, 3], [1, 2])
    with pytest.raises(BatchError, match="3 logprobs for 2 positions"):
        collate([one], torch.zeros(3))
    with pytest.raises(BatchError, match="reference_logprobs has 1 entries for 2"):
        collate([one], torch.zeros(2), reference=torch.zeros(1))
    with pytest.raises(BatchError, match="1 samples are no pairs"):
        collate([one], torch.zeros(2), pairs=True)
    with pytest.raises(BatchError, match="2 entries of the teacher for 1"):
        collate([one], torch.zeros(2), teacher=[None, None])
    with pytest.raises(TeacherError, match="no logprobs of a teacher"):
        collate([one], torch.zeros(2), teacher=[None])


@pytest.mark.parametrize(
    ("name", "told", "words"),
    [
        ("sft", {"normalise": "constant"}, "needs `constant`"),
        ("sft", {"constant": 4}, "has no use with normalise: token"),
        ("grpo", {"clip": 1}, "clip: Unexpected"),
        ("grpo", {"clip_low": "x"}, "clip_low: .*number"),
        ("grpo", {"kl": float("nan")}, "kl: .*finite"),
        ("grpo", {"distillation": {"form": "x"}}, "distillation.form: .*forward_kl"),
        ("dpo", {"beta": 0}, "beta: .*greater than 0"),
        ("dpo", {"kind": "ipo", "label_smoothing": 0.1}, "no use with kind: ipo"),
        ("opd", {"tail": "x"}, "tail"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(name, told, words):
    with pytest.raises(UsageError, match=words) as caught:
        algorithm(name, told)
    assert str(caught.value).startswith(f"algorithm {name}")
    assert "\n" not in str(caught.value)
