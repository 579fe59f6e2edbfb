"""Whether weights can read samples at all, said of the first that they cannot, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from silva.errors import UsageError
from silva.train.algorithms.totals import loss_positions
from silva.train.sample import Sample, SampleError
from silva.tree.run import TOKENIZER

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm
    from silva.train.engines.teacher import Teacher


def check_readable(
    samples: Sequence[Sample],
    vocabulary: int,
    context: int,
    shorten: str = "truncate it with `silva train samples --limit`",
    tokenizer: str = "",
) -> None:
    """Check length, ids and kind.

    Args:
        samples: any.
        vocabulary: how many ids the weights know.
        context: how many they read at most.
        shorten: how one that is too long can be made shorter.
        tokenizer: digest of the tokens that the weights' ids stand for, where it is known.

    Raises:
        SampleError: one is too long, shows images, or holds ids of another tokenizer.
    """
    for sample in samples:
        if len(sample) > context:
            raise SampleError(f"{sample.name}: {len(sample)} ids, the policy's context holds {context}; {shorten}")
        if sample.images:
            raise SampleError(f"{sample.name}: it shows images, which this policy cannot see")
        if len(sample) and not 0 <= int(sample.ids.min()) <= int(sample.ids.max()) < vocabulary:
            raise SampleError(
                f"{sample.name}: it holds id {int(sample.ids.max())}, the policy has {vocabulary}: it was made "
                "with another tokenizer"
            )
        theirs = sample.attributes.get(TOKENIZER)
        if tokenizer and theirs and theirs != tokenizer:
            raise SampleError(
                f"{sample.name}: its ids are of another tokenizer ({theirs[:12]}) than the policy's, {tokenizer[:12]}; "
                "roll out with the policy's own, or train a policy of that family"
            )


def check_known(samples: Sequence[Sample], algorithm: Algorithm) -> None:
    """Check what a loss reads at a position: its weight, and its log-probability if the algorithm needs it.

    Raises:
        SampleError: a log-probability is not.
        BatchError: a weight is no number from 0, or nothing stands before an id with loss.
    """
    for sample in samples:
        loss_positions(sample)
        if "logprobs" in algorithm.needs and np.isnan(sample.logprobs[sample.mask]).any():
            raise SampleError(
                f"{sample.name}: it has no log-probabilities, which {algorithm.name} needs; roll out with them "
                "(sampling.logprobs=true), or train with sft"
            )


def check_taught(samples: Sequence[Sample], algorithm: Algorithm, teacher: Teacher | None) -> None:
    """Check that there is a teacher that reads the samples if the algorithm needs one.

    Raises:
        UsageError: there is none, or it cannot.
    """
    if algorithm.needs.isdisjoint({"teacher", "teacher_top"}):
        return
    if teacher is None:
        raise UsageError(f"algorithm {algorithm.name}: it needs a teacher; name one as `teacher` in the config")
    teacher.check(samples)
