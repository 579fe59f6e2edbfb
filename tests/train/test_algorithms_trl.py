"""TRL as the referee: its trainers' own loss functions on a tiny random llama, loss and gradient against ours."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

DRAWN = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LENGTHS = [3, 7, 1, 5]
lengths = st.lists(st.integers(1, 7), min_size=2, max_size=4)
seeds = st.integers(0, 2**31)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tensors of a few numbers are slower on several threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trl():
    return pytest.importorskip("trl", reason="pip install trl==1.16.0")


@pytest.fixture(scope="module")
def grpo(trl, tmp_path_factory):
    from algorithm_referee import llama, tokenizer
    from datasets import Dataset

    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("grpo")),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=7,
        report_to=[],
        use_cpu=True,
        bf16=False,
    )
    trainer = trl.GRPOTrainer(
        model=llama(1),
        reward_funcs=lambda **_: [0.0],
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["w4"] * 4}),
        processing_class=tokenizer(),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.args.steps_per_generation = 1
    return trainer


def grpo_loss(trainer, drawn, **told):
    """TRL's loss under these settings of the trainer."""
    import torch

    correction = told.pop("use_bias_correction_kl", False)
    cap = told.pop("cap", None)
    trainer.args.use_bias_correction_kl = correction
    plain = {"loss_type": "dapo", "epsilon_low": 0.2, "epsilon_high": 0.2, "beta": 0.0}
    for name, value in {**plain, "importance_sampling_level": "token", "use_vllm": False, **told}.items():
        setattr(trainer, name, value)
    inputs = {
        "prompt_ids": drawn.prompt,
        "prompt_mask": torch.ones_like(drawn.prompt),
        "completion_ids": drawn.completion,
        "completion_mask": drawn.there,
        "tool_mask": drawn.loss,
        "advantages": drawn.advantages,
        "old_per_token_logps": drawn.sampled,
        "ref_per_token_logps": drawn.reference,
        "num_items_in_batch": drawn.loss.sum(),
    }
    if cap is not None:
        from algorithm_referee import token_logprobs

        with torch.no_grad():
            now = token_logprobs(trainer.model, drawn.ids)[:, -drawn.completion.shape[1] :]
        inputs["old_per_token_logps"] = None
        inputs["importance_sampling_ratio"] = (now - drawn.sampled).exp().clamp(max=cap)
        trainer.use_vllm, trainer.vllm_importance_sampling_correction = True, True
    return trainer._compute_loss(trainer.model, inputs)


GRPO_CASES = {
    "grpo": ({"normalise": "sequence"}, {"loss_type": "grpo"}),
    "dapo": ({}, {"loss_type": "dapo"}),
    "bnpo": ({}, {"loss_type": "bnpo"}),
    "dr_grpo": ({"normalise": "constant", "constant": 7}, {"loss_type": "dr_grpo"}),
    "clip higher": ({"clip_low": 0.1, "clip_high": 0.28}, {"epsilon_low": 0.1, "epsilon_high": 0.28}),
    "gspo": (
        {"ratio": "sequence", "normalise": "sequence"},
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    ),
    "gspo tight": (
        {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
        {"importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
    ),
    "kl": ({"kl": 0.3, "kl_correction": False}, {"beta": 0.3}),
    "kl corrected": ({"kl": 0.3}, {"beta": 0.3, "use_bias_correction_kl": True}),
    "kl by sequence": (
        {"kl": 0.04, "normalise": "sequence", "kl_correction": False},
        {"beta": 0.04, "loss_type": "grpo"},
    ),
    "truncated": ({"truncate": 1.1}, {"cap": 1.1}),
    "truncated, kl": ({"truncate": 2.0, "kl": 0.1, "kl_correction": False}, {"cap": 2.0, "beta": 0.1}),
}


@pytest.mark.parametrize("case", GRPO_CASES)
def test_grpo_on_fixed_inputs(grpo, case):
    check_grpo(grpo, case, 3, LENGTHS, 0.3)


@pytest.mark.parametrize("case", GRPO_CASES)
@DRAWN
@given(seed=seeds, lengths=lengths, noise=st.sampled_from([0.0, 0.05, 0.4, 1.0]))
def test_grpo_on_drawn_inputs(grpo, case, seed, lengths, noise):
    check_grpo(grpo, case, seed, lengths, noise)


def check_grpo(trainer, case, seed, lengths, noise):
    from algorithm_referee import assert_same, batch, draw

    from silva.train.algorithms.grpo import GRPO

    ours, theirs = GRPO_CASES[case]
    drawn = draw(trainer.model, seed, lengths, noise)
    loss = GRPO(**{"clip_high": 0.2, **ours}).loss(batch(trainer.model, drawn))
    assert_same(trainer.model, loss.value, grpo_loss(trainer, drawn, **theirs))


def test_grpo_in_batches_adds_up_to_trl_on_the_whole(grpo):
    import torch
    from algorithm_referee import assert_same, draw, samples, token_logprobs

    from silva.train.algorithms.batch import collate
    from silva.train.algorithms.grpo import GRPO
    from silva.train.algorithms.totals import Totals

    drawn = draw(grpo.model, 8, LENGTHS, 0.3)
    made, width = samples(drawn), drawn.completion.shape[1]
    totals = Totals.of(made)
    for normalise, kind in (("token", "dapo"), ("sequence", "grpo")):
        parts = []
        for rows in ([0], [1, 2], [3]):
            keep = drawn.loss[rows].bool()
            logprobs = token_logprobs(grpo.model, drawn.ids[rows])[:, -width:][keep]
            few = collate([made[row] for row in rows], logprobs, totals=totals)
            parts.append(GRPO(clip_high=0.2, normalise=normalise).loss(few).value)
        assert_same(grpo.model, torch.stack(parts).sum(), grpo_loss(grpo, drawn, loss_type=kind))


@pytest.mark.parametrize(("scale", "baseline"), [("group", "mean_std"), ("none", "mean")])
def test_grpo_advantages(grpo, monkeypatch, scale, baseline):
    from algorithm_samples import group

    from silva.train.algorithms.advantages import score

    rewards = [1.0, 0.0, 0.25, 1.0]
    monkeypatch.setattr(grpo, "scale_rewards", scale)
    monkeypatch.setattr(grpo, "reward_funcs", [lambda completions, **_: rewards])
    theirs = grpo._generate_and_score_completions([{"prompt": "w4 w5"}] * 4)["advantages"]
    ours = score(group(rewards), baseline)
    assert [float(each.advantages[2]) for each in ours] == pytest.approx(theirs.tolist(), rel=1e-5)


def test_leave_one_out_advantages(trl, tmp_path):
    from algorithm_referee import llama, tokenizer
    from algorithm_samples import group
    from datasets import Dataset

    from silva.train.algorithms.advantages import score

    rewards = [1.0, 0.0, 0.25, 1.0]
    arguments = trl.RLOOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=3,
        report_to=[],
        use_cpu=True,
        bf16=False,
        beta=0.0,
    )
    trainer = trl.RLOOTrainer(
        model=llama(1),
        reward_funcs=lambda completions, **_: rewards,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["w4"] * 4}),
        processing_class=tokenizer(),
    )
    theirs = trainer._generate_and_score_completions([{"prompt": "w4 w5"}] * 4)["advantages"]
    ours = score(group(rewards), "leave_one_out")
    assert [float(each.advantages[2]) for each in ours] == pytest.approx(theirs.tolist(), rel=1e-5)


@pytest.fixture(scope="module")
def sft(trl, tmp_path_factory):
    from algorithm_referee import llama, tokenizer
    from datasets import Dataset

    arguments = trl.SFTConfig(output_dir=str(tmp_path_factory.mktemp("sft")), report_to=[], use_cpu=True, bf16=False)
    return trl.SFTTrainer(
        model=llama(1),
        args=arguments,
        train_dataset=Dataset.from_dict({"input_ids": [[4, 5, 6]], "labels": [[4, 5, 6]]}),
        processing_class=tokenizer(),
    )


@DRAWN
@given(seed=seeds, lengths=lengths)
def test_sft(sft, seed, lengths):
    import torch
    from algorithm_referee import assert_same, batch, draw

    from silva.train.algorithms.sft import SFT

    drawn = draw(sft.model, seed, lengths, 0.0)
    ones = torch.ones_like(drawn.prompt)
    inputs = {
        "input_ids": drawn.ids,
        "attention_mask": torch.cat([ones, drawn.there], 1),
        "labels": drawn.ids.masked_fill(torch.cat([0 * ones, drawn.loss], 1) == 0, -100),
    }
    assert_same(sft.model, SFT().loss(batch(sft.model, drawn)).value, sft.compute_loss(sft.model, inputs))


@pytest.fixture(scope="module")
def dpo(trl, tmp_path_factory):
    from algorithm_referee import llama, tokenizer
    from datasets import Dataset

    arguments = trl.DPOConfig(output_dir=str(tmp_path_factory.mktemp("dpo")), report_to=[], use_cpu=True, bf16=False)
    return trl.DPOTrainer(
        model=llama(1),
        ref_model=llama(2),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["w4"], "chosen": ["w5"], "rejected": ["w6"]}),
        processing_class=tokenizer(),
    )


DPO_CASES = {
    "sigmoid": ({}, {}),
    "robust": ({"kind": "robust", "label_smoothing": 0.2}, {"loss_types": ["robust"], "label_smoothing": 0.2}),
    "hinge": ({"kind": "hinge"}, {"loss_types": ["hinge"]}),
    "ipo": ({"kind": "ipo"}, {"loss_types": ["ipo"]}),
    "sigmoid, reference-free": ({"reference_free": True}, {"free": True}),
    "ipo, reference-free": ({"kind": "ipo", "reference_free": True}, {"loss_types": ["ipo"], "free": True}),
    "hinge, reference-free": ({"kind": "hinge", "reference_free": True}, {"loss_types": ["hinge"], "free": True}),
}


def check_dpo(trainer, drawn, ours, theirs, beta):
    import torch
    from algorithm_referee import assert_same, samples, token_logprobs

    from silva.train.algorithms.batch import collate
    from silva.train.algorithms.dpo import DPO

    theirs = dict(theirs)
    free = theirs.pop("free", False)
    for name, value in {
        "loss_types": ["sigmoid"],
        "loss_weights": [1.0],
        "label_smoothing": 0.0,
        "beta": beta,
        **theirs,
    }.items():
        setattr(trainer, name, value)
    trainer.precompute_ref_logps = free
    pairs = len(drawn.prompt) // 2
    order = [row for pair in range(pairs) for row in (pair, pair + pairs)]
    ones = torch.ones_like(drawn.prompt)
    inputs = {
        "input_ids": drawn.ids,
        "attention_mask": torch.cat([ones, drawn.there], 1),
        "completion_mask": torch.cat([0 * ones, drawn.loss], 1),
    }
    if free:
        inputs |= {"ref_chosen_logps": torch.zeros(pairs), "ref_rejected_logps": torch.zeros(pairs)}
    keep, width = drawn.loss[order].bool(), drawn.completion.shape[1]
    made = samples(drawn)
    logprobs = token_logprobs(trainer.model, drawn.ids[order])[:, -width:][keep]
    with torch.no_grad():
        reference = token_logprobs(trainer.ref_model, drawn.ids[order])[:, -width:][keep]
    few = collate([made[row] for row in order], logprobs, reference=None if free else reference, pairs=True)
    loss = DPO(beta=beta, **ours).loss(few)
    assert_same(trainer.model, loss.value, trainer._compute_loss(trainer.model, inputs, return_outputs=False))
    assert loss.metrics["margin"] == pytest.approx(trainer._metrics["train"]["rewards/margins"][-1], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("case", DPO_CASES)
@DRAWN
@given(seed=seeds, lengths=st.lists(st.integers(1, 7), min_size=4, max_size=4), beta=st.sampled_from([0.05, 0.1, 0.7]))
def test_dpo(dpo, case, seed, lengths, beta):
    from algorithm_referee import draw

    check_dpo(dpo, draw(dpo.model, seed, lengths, 0.0), *DPO_CASES[case], beta)


@DRAWN
@given(seed=seeds, lengths=st.lists(st.integers(1, 7), min_size=2, max_size=2), smoothing=st.floats(0.01, 0.4))
def test_dpo_smoothed(dpo, seed, lengths, smoothing):
    """TRL smooths labels in `aot_unpaired`, which sorts over pairs: with one pair it is the conservative DPO."""
    from algorithm_referee import draw

    theirs = {"loss_types": ["aot_unpaired"], "label_smoothing": smoothing}
    check_dpo(dpo, draw(dpo.model, seed, lengths, 0.0), {"label_smoothing": smoothing}, theirs, 0.1)


@DRAWN
@given(seed=seeds, good=st.integers(1, 7), bad=st.lists(st.integers(1, 7), min_size=2, max_size=2))
def test_dpo_with_the_chosen_sides_likelihood(dpo, seed, good, bad):
    """TRL's term is a mean over all tokens of the batch: with chosen sides of one length it is the mean over pairs."""
    from algorithm_referee import draw

    theirs = {"loss_types": ["sigmoid", "sft"], "loss_weights": [1.0, 0.7]}
    drawn = draw(dpo.model, seed, [good, good, *bad], 0.0)
    drawn.loss[:2] = drawn.there[:2]
    check_dpo(dpo, drawn, {"nll": 0.7}, theirs, 0.1)


def test_the_referee_can_tell_a_wrong_loss(grpo):
    """Without this the comparison itself would go unchecked."""
    from algorithm_referee import assert_same, batch, draw

    from silva.train.algorithms.grpo import GRPO

    drawn = draw(grpo.model, 3, LENGTHS, 0.3)
    right = grpo_loss(grpo, drawn, loss_type="grpo")
    wrong = GRPO(clip_high=0.2, normalise="token").loss(batch(grpo.model, drawn)).value
    for not_it in (wrong, right * (1 + 1e-4), right.detach() + wrong - wrong.detach()):
        with pytest.raises(AssertionError):
            assert_same(grpo.model, not_it, right)
