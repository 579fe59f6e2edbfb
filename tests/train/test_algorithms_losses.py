"""Losses against formulas written out number by number; gradients against finite differences and exact divergences."""

import math
from dataclasses import replace

import pytest
from algorithm_numbers import made
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.train.algorithms import algorithm
from silva.train.algorithms.totals import Totals

pytestmark = pytest.mark.slow

DRAWN = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)


def reduced(losses, weights, how, constant):
    """Losses a token, one list a sample, brought to one number."""
    summed = [sum(w * each for w, each in zip(ws, row, strict=True)) for ws, row in zip(weights, losses, strict=True)]
    if how == "token":
        return sum(summed) / sum(map(sum, weights))
    if how == "sequence":
        return sum(one / sum(ws) for one, ws in zip(summed, weights, strict=True)) / len(losses)
    return sum(summed) / (len(losses) * constant)


def check(parameters, batch, apart, by_hand):
    """Value by the formula; gradient by moving every log-probability a little."""
    loss = parameters.loss(batch)
    value = by_hand(apart)
    assert float(loss.value.detach()) == pytest.approx(value, rel=1e-9, abs=1e-12)
    loss.value.backward()
    step, at = 1e-6, 0
    for i, row in enumerate(apart["logprobs"]):
        for j, kept in enumerate(row):
            sides = []
            for moved in (kept + step, kept - step):
                row[j] = moved
                sides.append(by_hand(apart))
            apart["logprobs"][i][j] = kept
            slope = (sides[0] - sides[1]) / (2 * step)
            assert float(batch.logprobs.grad[at]) == pytest.approx(slope, rel=1e-5, abs=1e-8)
            at += 1


LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
HOW = st.sampled_from(["token", "sequence", "constant"])


@DRAWN
@given(seed=seeds, lengths=LENGTHS, how=HOW)
def test_sft_is_the_weighted_negative_log_likelihood(seed, lengths, how):
    constant = 9 if how == "constant" else None

    def by_hand(numbers):
        losses = [[-each for each in row] for row in numbers["logprobs"]]
        return reduced(losses, numbers["weights"], how, constant)

    check(algorithm("sft", {"normalise": how, "constant": constant}), *made(seed, lengths), by_hand)


@DRAWN
@given(
    seed=seeds,
    lengths=LENGTHS,
    how=HOW,
    level=st.sampled_from(["token", "sequence"]),
    kl=st.sampled_from([None, "k1", "k2", "k3"]),
    cap=st.sampled_from([None, 0.9, 1.2]),
)
def test_grpo_is_the_clipped_objective_of_its_papers(seed, lengths, how, level, kl, cap):
    low, high, pull, constant = 0.15, 0.3, 0.2, 9 if how == "constant" else None
    batch, apart = made(seed, lengths)
    fixed = [list(row) for row in apart["logprobs"]]

    def by_hand(numbers):
        losses = []
        for s, row in enumerate(numbers["logprobs"]):
            behind = numbers["old"][s] if cap else numbers["sampled"][s]
            logs = [now - then for now, then in zip(row, behind, strict=True)]
            if level == "sequence":
                logs = [sum(logs) / len(logs)] * len(logs)
            losses.append([])
            for t, now in enumerate(row):
                r, a = math.exp(logs[t]), numbers["advantages"][s][t]
                # k1 is part of the advantage, which is held fixed while the model moves.
                if kl == "k1":
                    a -= pull * (fixed[s][t] - numbers["reference"][s][t])
                loss = -min(r * a, max(1 - low, min(1 + high, r)) * a)
                if cap:
                    loss *= min(cap, math.exp(behind[t] - numbers["sampled"][s][t]))
                d = now - numbers["reference"][s][t]
                if kl == "k2":
                    loss += pull * d * d / 2
                if kl == "k3":
                    loss += pull * (math.exp(-d) + d - 1)
                losses[-1].append(loss)
        return reduced(losses, numbers["weights"], how, constant)

    told = {"clip_low": low, "clip_high": high, "ratio": level, "normalise": how, "constant": constant}
    if kl:
        told |= {"kl": pull, "kl_estimator": kl, "kl_correction": False}
    check(algorithm("grpo", {**told, "truncate": cap}), batch, apart, by_hand)


@DRAWN
@given(seed=seeds, lengths=LENGTHS, how=HOW, form=st.sampled_from(["policy_gradient", "k2", "k3"]))
def test_distillation_at_drawn_ids(seed, lengths, how, form):
    constant = 9 if how == "constant" else None
    batch, apart = made(seed, lengths)
    fixed = [list(row) for row in apart["logprobs"]]

    def by_hand(numbers):
        losses = []
        for s, row in enumerate(numbers["logprobs"]):
            losses.append([])
            for t, now in enumerate(row):
                drawn, said = numbers["sampled"][s][t], numbers["teacher"][s][t]
                d = now - said
                if form == "policy_gradient":
                    loss = -math.exp(now - drawn) * (said - drawn)
                else:
                    loss = d * d / 2 if form == "k2" else math.exp(-d) + d - 1
                    loss *= min(1.5, math.exp(fixed[s][t] - drawn))
                losses[-1].append(loss)
        return reduced(losses, numbers["weights"], how, constant)

    told = {"normalise": how, "constant": constant}
    if form != "policy_gradient":
        told |= {"form": "direct", "estimator": form, "truncate": 1.5}
    check(algorithm("opd", told), batch, apart, by_hand)


@DRAWN
@given(
    seed=seeds,
    lengths=st.lists(st.integers(1, 5), min_size=4, max_size=4),
    kind=st.sampled_from(["sigmoid", "robust", "hinge", "ipo"]),
    free=st.booleans(),
)
def test_dpo_with_weights(seed, lengths, kind, free):
    beta, smooth = 0.3, 0.1 if kind in ("sigmoid", "robust") else 0.0

    def softplus(x):
        return math.log1p(math.exp(-abs(x))) + max(x, 0.0)

    def by_hand(numbers):
        sides = []
        for s, row in enumerate(numbers["logprobs"]):
            base = [0.0] * len(row) if free else numbers["reference"][s]
            terms = zip(row, base, numbers["weights"][s], strict=True)
            total = sum(w * (now - then) for now, then, w in terms)
            sides.append(total / sum(numbers["weights"][s]) if kind == "ipo" else total)
        losses = []
        for d in (sides[0] - sides[1], sides[2] - sides[3]):
            right, wrong = softplus(-beta * d), softplus(beta * d)
            losses.append(
                {
                    "sigmoid": (1 - smooth) * right + smooth * wrong,
                    "robust": ((1 - smooth) * right - smooth * wrong) / (1 - 2 * smooth),
                    "hinge": max(0.0, 1 - beta * d),
                    "ipo": (d - 1 / (2 * beta)) ** 2,
                }[kind]
            )
        return sum(losses) / 2

    told = {"kind": kind, "beta": beta, "label_smoothing": smooth, "reference_free": free}
    check(algorithm("dpo", told), *made(seed, lengths, pairs=True), by_hand)


ALL = {
    "sft": {"normalise": "sequence"},
    "dpo": {},
    "grpo": {"kl": 0.1, "distillation": {"form": "direct"}, "distillation_weight": 0.3, "truncate": 1.2},
    "opd": {"normalise": "constant", "constant": 8},
}


def rows(batch, first, last, totals):
    """The samples `first` to `last` of a batch as a batch of their own."""
    import torch

    from silva.train.algorithms.batch import Batch

    inside = (batch.sequence >= first) & (batch.sequence < last)
    kept = {
        name: None if getattr(batch, name) is None else getattr(batch, name)[inside]
        for name in Batch.__slots__
        if name not in ("chosen", "rejected", "totals", "size", "sequence")
    }
    pairs = {}
    if batch.chosen is not None:
        pairs = {"chosen": torch.arange(0, last - first, 2), "rejected": torch.arange(1, last - first, 2)}
    return Batch(**kept, sequence=batch.sequence[inside] - first, totals=totals, **pairs)


@pytest.mark.parametrize("name", ALL)
@DRAWN
@given(seed=seeds, lengths=st.lists(st.integers(1, 5), min_size=6, max_size=6), cut=st.sampled_from([2, 4]))
def test_batches_of_a_step_add_up_to_the_step(name, seed, lengths, cut):
    batch, apart = made(seed, lengths, pairs=name == "dpo")
    chosen = algorithm(name, ALL[name])
    whole = chosen.loss(batch)
    totals = Totals(tokens=sum(map(sum, apart["weights"])), sequences=6, pairs=3)
    parts = chosen.loss(rows(batch, 0, cut, totals)) + chosen.loss(rows(batch, cut, 6, totals))
    assert float(parts.value.detach()) == pytest.approx(float(whole.value.detach()), rel=1e-9)
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_what_is_masked_reaches_neither_loss_nor_gradient(name):
    import torch

    batch, _ = made(1, [3, 4, 2, 5], pairs=name == "dpo")
    chosen = algorithm(name, ALL[name])
    mask = torch.ones(14)
    mask[[1, 5, 12]] = 0
    plain = chosen.loss(replace(batch, mask=mask))
    broken = {
        each: getattr(batch, each)
        .detach()
        .clone()
        .masked_fill(mask == 0, float("nan"))
        .requires_grad_(each == "logprobs")
        for each in (
            "logprobs",
            "sampled_logprobs",
            "old_logprobs",
            "reference_logprobs",
            "teacher_logprobs",
            "advantages",
        )
    }
    loss = chosen.loss(replace(batch, mask=mask, **broken))
    assert float(loss.value.detach()) == float(plain.value.detach())
    loss.value.backward()
    gradient = broken["logprobs"].grad
    assert torch.isfinite(gradient).all()
    assert not gradient[[1, 5, 12]].any()
    assert gradient[0] != 0


def categorical(seed):
    """One choice among seven ids: logits of the policy, and two other distributions' logprobs."""
    import torch

    random = torch.Generator().manual_seed(seed)
    numbers = torch.randn(3, 7, generator=random, dtype=torch.float64)
    return numbers[0].requires_grad_(), numbers[1].log_softmax(0), numbers[2].log_softmax(0)


def every_choice(logits, drawn_from, other):
    """A batch of every id there is, each weighed by its probability of being drawn: losses become expectations."""
    import torch

    from silva.train.algorithms.batch import Batch

    zeros = torch.zeros(7, dtype=torch.float64)
    return Batch(
        logprobs=logits.log_softmax(0),
        mask=torch.ones(7),
        weights=drawn_from.exp(),
        advantages=zeros,
        sequence=zeros.long(),
        sampled_logprobs=drawn_from,
        reference_logprobs=other,
        teacher_logprobs=other,
    )


def same_direction(loss, divergence, logits):
    import torch

    (ours,) = torch.autograd.grad(loss, logits)
    (exact,) = torch.autograd.grad(divergence, logits)
    assert torch.allclose(ours, exact, rtol=1e-9, atol=1e-12)
    assert exact.abs().max() > 1e-3


def reverse_kl(logits, other):
    now = logits.log_softmax(0)
    return (now.exp() * (now - other)).sum()


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("seed", range(5))
def test_each_estimator_pulls_as_the_reverse_kl_does_even_off_policy(estimator, seed):
    logits, older, reference = categorical(seed)
    wide = {"clip_low": 0.999999, "clip_high": 1e9, "kl": 1.0, "kl_estimator": estimator}
    loss = algorithm("grpo", wide).loss(every_choice(logits, older, reference)).value
    same_direction(loss, reverse_kl(logits, reference), logits)


@pytest.mark.parametrize(
    "told", [{}, {"importance": False}, {"form": "direct"}, {"form": "direct", "importance": False}]
)
@pytest.mark.parametrize("seed", range(5))
def test_distillation_descends_the_reverse_kl(told, seed):
    logits, _, teacher = categorical(seed)
    now = logits.detach().log_softmax(0)
    loss = algorithm("opd", told).loss(every_choice(logits, now, teacher)).value
    same_direction(loss, reverse_kl(logits, teacher), logits)


@pytest.mark.parametrize("seed", range(5))
def test_direct_distillation_is_right_off_policy_too(seed):
    logits, older, teacher = categorical(seed)
    loss = algorithm("opd", {"form": "direct"}).loss(every_choice(logits, older, teacher)).value
    same_direction(loss, reverse_kl(logits, teacher), logits)


@pytest.mark.parametrize("seed", range(5))
def test_k3_alone_descends_the_forward_kl(seed):
    logits, _, teacher = categorical(seed)
    now = logits.detach().log_softmax(0)
    loss = algorithm("opd", {"form": "direct", "estimator": "k3"}).loss(every_choice(logits, now, teacher)).value
    forward = (teacher.exp() * (teacher - logits.log_softmax(0))).sum()
    same_direction(loss, forward, logits)


def test_a_teacher_is_a_term_of_grpo_with_its_own_weight():
    batch, _ = made(4, [3, 2])
    alone, term = algorithm("grpo").loss(batch), algorithm("opd").loss(batch)
    both = algorithm("grpo", {"distillation": {}, "distillation_weight": 0.25})
    assert both.needs == {"logprobs", "group", "teacher"}
    loss = both.loss(batch)
    assert float(loss.value.detach()) == pytest.approx(float((alone.value + 0.25 * term.value).detach()), rel=1e-12)
    assert loss.metrics["distillation/reverse_kl"] == term.metrics["reverse_kl"]


def test_the_better_arm_is_learned_from_groups():
    import numpy as np
    import torch
    from algorithm_samples import sample

    from silva.train.algorithms.batch import collate

    random, logits = torch.Generator().manual_seed(0), torch.zeros(4, requires_grad=True)
    grpo = algorithm("grpo")
    for _ in range(150):
        now = logits.detach().log_softmax(0)
        arms = torch.multinomial(now.exp(), 8, replacement=True, generator=random).tolist()
        group = [
            sample([9, arm], [1], reward=float(arm == 2), index=i, logprobs=np.array([0, now[arm]], np.float32))
            for i, arm in enumerate(arms)
        ]
        scored = grpo.score(group)
        if not isinstance(scored, list):
            continue
        loss = grpo.loss(collate(scored, logits.log_softmax(0)[arms]))
        (step,) = torch.autograd.grad(loss.value, logits)
        logits.data -= 0.5 * step
    assert float(logits.softmax(0)[2].detach()) > 0.9
