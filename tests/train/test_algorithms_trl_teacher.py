"""TRL as the referee of distillation: its losses against a second random llama as the teacher."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silva.train.algorithms.teacher import TeacherLogprobs

pytestmark = pytest.mark.slow

DRAWN = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
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


@DRAWN
@given(seed=seeds, lengths=lengths)
def test_policy_gradient_of_a_teacher(trl, seed, lengths):
    """TRL's sampled-token distillation, its weighting turned off; on-policy, where its loss has our gradient."""
    import torch
    from algorithm_referee import assert_same, batch, draw, llama, samples, token_logprobs
    from trl.experimental.iw_opd import IWOPDTrainer

    from silva.train.algorithms.opd import OPD

    model, guide = llama(1), llama(2)
    drawn = draw(model, seed, lengths, 0.0)
    width = drawn.completion.shape[1]
    with torch.no_grad():
        said = token_logprobs(guide, drawn.ids)[:, -width:]
        now = token_logprobs(model, drawn.ids)[:, -width:]
    trainer = SimpleNamespace(
        temperature=1.0,
        iw_opd_epsilon=1e-8,
        iw_opd_gamma=0.0,
        model=model,
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
    )
    theirs = IWOPDTrainer._compute_iw_opd_loss(
        trainer,
        model(input_ids=drawn.ids).logits[:, -width - 1 : -1],
        drawn.completion,
        drawn.completion.masked_fill(drawn.loss == 0, -100),
        said,
        now,
    )
    words = [word(sample, said[row]) for row, sample in enumerate(samples(drawn))]
    ours = OPD().loss(batch(model, drawn, teacher=words)).value
    # The losses differ by the value of log-probabilities held fixed; gradients must not.
    assert_same(model, ours - ours.detach(), theirs - theirs.detach(), digits=4)


def word(sample, said):
    """What the teacher said of a sample whose completion begins after four ids."""
    import numpy as np

    logprobs = np.zeros(len(sample), np.float32)
    logprobs[4:] = said[: len(sample) - 4].numpy()
    return TeacherLogprobs(ids=sample.ids, logprobs=logprobs)


@pytest.mark.parametrize("tail", ["bucket", "renormalise"])
@pytest.mark.parametrize("k", [1, 3, 23])
@DRAWN
@given(seed=seeds, lengths=lengths)
def test_forward_kl_over_the_likeliest_ids(trl, tail, k, seed, lengths):
    from trl.experimental.iw_opd import IWOPDTrainer

    check_kl(
        seed,
        lengths,
        k,
        tail,
        lambda *given, **told: IWOPDTrainer.generalized_jsd_loss(
            *given, **told, beta=0.0, top_k=k, add_tail=tail == "bucket"
        ),
    )


@pytest.mark.parametrize(("form", "beta"), [("forward_kl", 0.0), ("reverse_kl", 1.0)])
@DRAWN
@given(seed=seeds, lengths=lengths)
def test_a_kl_over_all_ids_is_generalised_distillation(trl, form, beta, seed, lengths):
    from algorithm_referee import VOCABULARY
    from trl.experimental.gkd import GKDTrainer

    def theirs(*given, **told):
        return GKDTrainer.generalized_jsd_loss(*given, **told, beta=beta)

    check_kl(seed, lengths, VOCABULARY, "renormalise", theirs, form)


def check_kl(seed, lengths, k, tail, theirs, form="forward_kl"):
    import torch
    from algorithm_referee import assert_same, batch, draw, llama, samples

    from silva.train.algorithms.opd import OPD

    model, guide = llama(1), llama(2)
    drawn = draw(model, seed, lengths, 0.0)
    width, keep = drawn.completion.shape[1], drawn.loss.bool()
    logits = model(input_ids=drawn.ids).logits[:, -width - 1 : -1]
    with torch.no_grad():
        said = guide(input_ids=drawn.ids).logits[:, -width - 1 : -1]
    labels = drawn.completion.masked_fill(~keep, -100)
    top = said.log_softmax(-1).topk(k)
    words = [beside(sample, top.indices[row], top.values[row]) for row, sample in enumerate(samples(drawn))]
    own = model(input_ids=drawn.ids).logits[:, -width - 1 : -1].log_softmax(-1).gather(-1, top.indices)[keep]
    ours = OPD(form=form, tail=tail).loss(batch(model, drawn, teacher=words, top=own)).value
    assert_same(model, ours, theirs(logits, said, labels), digits=5)


def beside(sample, ids, logprobs):
    """The teacher's likeliest ids at each place of a sample."""
    import numpy as np

    n, k = len(sample), ids.shape[1]
    top_ids = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    top_logprobs = np.full((n, k), -100.0, np.float64)
    top_ids[4:], top_logprobs[4:] = ids[: n - 4].numpy(), logprobs[: n - 4].numpy()
    return TeacherLogprobs(ids=sample.ids, logprobs=np.zeros(n, np.float32), top_ids=top_ids, top_logprobs=top_logprobs)
