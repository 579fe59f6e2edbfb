"""prime-rl: the micro batches its trainer reads from disk. Fields and their order as in
src/prime_rl/transports/rollouts/types.py at commit 559b4477; the structs travel as arrays, so order is the format.

    samples ─▶ TrainingSample (one a sample) ─▶ packed to the trainer's seq_len ─▶ list[MicroBatch] as msgpack

The file is one rank's batch of one step: `OUTPUT_DIR/rollouts/step_N/rank_R.bin` with prime-rl's file-system transport.
Objective `rl` needs the advantages an algorithm wrote; `ce` is imitation, with a sample's weights on each id.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from silva.errors import UsageError
from silva.train.packing import pack
from silva.train.sample import Sample, SampleError
from silva.train.whole_file import Whole
from silva.train.writers import Options


class TrainingSample(msgspec.Struct, array_like=True, kw_only=False):
    """A sample as prime-rl's packer takes it; all lists have one entry for each id."""

    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    temperatures: list[float]
    env_name: str
    ref_logprobs: list[float] | None = None
    mm_kwargs: None = None
    routed_experts: None = None
    mm_token_type_ids: None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None
    advantages: list[float] | None = None


class MicroBatch(msgspec.Struct, array_like=True, kw_only=False):
    """Samples in a row as prime-rl's trainer takes them; `seq_lens` keeps them apart."""

    input_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    inference_logprobs: list[float]
    position_ids: list[int]
    sequence_lengths: list[int]
    temperatures: list[float]
    env_names: list[str]
    seq_lens: list[int]
    ref_logprobs: list[float] | None = None
    routed_experts: None = None
    mm_kwargs: None = None
    mm_token_type_ids: None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None


def training_sample(
    sample: Sample, *, objective: Literal["rl", "ce"] = "rl", temperature: float = 1.0
) -> TrainingSample:
    """One sample.

    Raises:
        SampleError: a log-probability is not known under `rl`; it shows images, whose pixels this form wants inline.
    """
    if sample.images:
        raise SampleError(
            f"{sample.name}: shows images; prime-rl wants their pixels in the batch, Silva keeps references"
        )
    if objective == "rl" and not sample.has_logprobs:
        raise SampleError(f"{sample.name}: has drawn ids without log-probabilities, which prime-rl's rl loss needs")
    n = len(sample)
    weights = [float(w) if m else 0.0 for w, m in zip(sample.weights.tolist(), sample.mask.tolist(), strict=True)]
    rl = objective == "rl"
    return TrainingSample(
        token_ids=sample.ids.tolist(),
        mask=sample.mask.tolist(),
        logprobs=sample.logprobs.tolist() if sample.has_logprobs else [0.0] * n,
        temperatures=[temperature] * n,
        env_name=sample.env or "silva",
        rl_weights=weights if rl else [0.0] * n,
        ce_weights=None if rl else weights,
        advantages=sample.advantages.tolist() if rl else None,
    )


def micro_batches(samples: Sequence[Sample], budget: int, options: Options) -> list[MicroBatch]:
    """The samples, packed into rows of at most `budget` ids.

    Raises:
        SampleError: as `training_sample`; a sample is longer than the budget; under `rl` no sample has advantages.
    """
    if options.objective == "rl" and not any(sample.advantages.any() for sample in samples):
        raise SampleError(
            f"{len(samples)} samples have no advantages, so the rl loss would learn nothing; score their groups first "
            "or write them with objective ce"
        )
    for sample in samples:
        if not 1 <= len(sample) <= budget:
            raise SampleError(f"{sample.name}: {len(sample)} ids, a batch holds 1 to {budget}; truncate or drop it")
    rows = [[samples[number] for number in row] for row in pack([len(each) for each in samples], budget)]
    return [_row(row, options) for row in rows]


def _row(samples: Sequence[Sample], options: Options) -> MicroBatch:
    parts = [training_sample(each, objective=options.objective, temperature=options.temperature) for each in samples]
    lengths = [len(each.token_ids) for each in parts]
    ce = options.objective == "ce"
    return MicroBatch(
        input_ids=[number for each in parts for number in each.token_ids],
        loss_mask=[flag for each in parts for flag in each.mask],
        advantages=[value for each in parts for value in each.advantages or [0.0] * len(each.token_ids)],
        inference_logprobs=[value for each in parts for value in each.logprobs],
        position_ids=[place for length in lengths for place in range(length)],
        sequence_lengths=lengths,
        temperatures=[value for each in parts for value in each.temperatures],
        env_names=[each.env_name for each in parts for _ in each.token_ids],
        seq_lens=lengths,
        rl_weights=[value for each in parts for value in each.rl_weights or ()],
        ce_weights=[value for each in parts for value in each.ce_weights or ()] if ce else None,
    )


def write(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write the samples as one rank's micro batches; return how many batches.

    Raises:
        UsageError: no budget is given.
        SampleError: as `micro_batches`.
    """
    if options.budget is None:
        raise UsageError("prime-rl packs what it trains on: give --budget, its trainer's seq_len")
    body = msgspec.msgpack.encode(batches := micro_batches(samples, options.budget, options))
    with Whole(path, options.force) as file:
        file.write(body)
    return len(batches)
