"""A sample as prompt and response, the shape most trainers take: the response begins with the first id the policy drew
and ends with the last, and holds what the environment said in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from silva.train.sample import Sample, SampleError


class Split(NamedTuple):
    """Lists of plain numbers. `mask` is 1 where a response id carries loss; `logprobs` has one for each response id,
    0 where the policy did not draw it, or is None where one is not known."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float] | None


def split(sample: Sample) -> Split:
    """The two parts of a sample.

    Raises:
        SampleError: the policy drew nothing in it, or nothing came before what it drew, or its weights are neither
            0 nor 1.
    """
    drawn = np.flatnonzero(sample.drawn)
    if not len(drawn):
        raise SampleError(f"{sample.name}: the policy drew nothing in it; leave it out")
    start, stop = int(drawn[0]), int(drawn[-1]) + 1
    if start == 0:
        raise SampleError(f"{sample.name}: nothing stands before the first drawn id; leave it out")
    logprobs = sample.logprobs[start:stop].tolist() if sample.has_logprobs else None
    mask = carried(sample)[start:stop].astype(np.int64).tolist()
    return Split(sample.ids[:start].tolist(), sample.ids[start:stop].tolist(), mask, logprobs)


def carried(sample: Sample) -> np.ndarray:
    """Which ids carry loss once weights of 0 are taken as a mask; shape (n,), bool.

    Raises:
        SampleError: a weight is neither 0 nor 1, which a mask cannot say.
    """
    weights = sample.weights[sample.mask]
    if not np.isin(weights, (0.0, 1.0)).all():
        raise SampleError(f"{sample.name}: has weights other than 0 and 1, which this format cannot hold; use silva")
    return sample.mask & (sample.weights > 0)


def known(sample: Sample, parts: Split, trainer: str) -> list[float]:
    """The log-probabilities of a split.

    Raises:
        SampleError: one is not known.
    """
    if parts.logprobs is None:
        raise SampleError(f"{sample.name}: has drawn ids without log-probabilities, which {trainer} needs")
    return parts.logprobs


def reward(sample: Sample) -> float | None:
    """The reward, None where it has none."""
    return None if sample.reward != sample.reward else float(sample.reward)
