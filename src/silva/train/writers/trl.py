"""TRL: rows for SFT, GRPO and DPO. Field names as in trl 1.16.0.

    sft    input_ids | labels (-100 where no loss)                 SFTTrainer; DataCollatorForLanguageModeling
    grpo   prompt_ids | completion_ids | logprobs | env_mask       what GRPOTrainer's `rollout_func` returns
    dpo    prompt_ids | chosen_ids | rejected_ids                  DataCollatorForPreference

SFT rows carry `labels`, which TRL takes as they are; a `completion_mask` it would pass over unless told otherwise. Its
DPO lays the loss on all of an answer; so an answer here is one action (silva.train.pairs). DPOTrainer tokenises every
data set it is given and has no switch for one that holds ids: its `_prepare_dataset` must be overridden to return the
rows as they are (docs/guides/samples.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from silva.train.pairs import Pair, pairs
from silva.train.sample import Sample, SampleError
from silva.train.writers import Options
from silva.train.writers.split import carried, known, reward, split
from silva.train.writers.table import FLOATS, IDS, write_table

IGNORED = -100
"""The label TRL takes for: no loss here."""

_SFT = pa.schema({"input_ids": IDS, "labels": IDS, "trajectory_id": pa.string()})
_GRPO = pa.schema(
    {
        "prompt_ids": IDS,
        "completion_ids": IDS,
        "logprobs": FLOATS,
        "env_mask": IDS,
        "reward": pa.float64(),
        "task_id": pa.string(),
        "trajectory_id": pa.string(),
    }
)
_DPO = pa.schema({"prompt_ids": IDS, "chosen_ids": IDS, "rejected_ids": IDS, "task_id": pa.string()})


def sft_row(sample: Sample) -> dict[str, Any]:
    """One row for SFT.

    Raises:
        SampleError: a weight is neither 0 nor 1.
    """
    labels = np.where(carried(sample), sample.ids, IGNORED)
    return {"input_ids": sample.ids.tolist(), "labels": labels.tolist(), "trajectory_id": sample.trajectory_id}


def grpo_row(sample: Sample) -> dict[str, Any]:
    """One row for GRPO; `env_mask` is 1 where the policy's id carries loss.

    Raises:
        SampleError: a log-probability is not known; nothing was drawn; a weight is neither 0 nor 1.
    """
    parts = split(sample)
    return {
        "prompt_ids": parts.prompt,
        "completion_ids": parts.response,
        "logprobs": known(sample, parts, "TRL's rollout_func"),
        "env_mask": parts.mask,
        "reward": reward(sample),
        "task_id": sample.task_id,
        "trajectory_id": sample.trajectory_id,
    }


def rollout(samples: Iterable[Sample]) -> dict[str, list[Any]]:
    """What a `rollout_func` returns for these samples: columns, each with an entry a sample. `reward` reaches the
    reward function by its name."""
    rows = [grpo_row(sample) for sample in samples]
    return {
        name: [row[name] for row in rows] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "reward")
    }


def dpo_row(pair: Pair) -> dict[str, Any]:
    """One row for DPO."""
    return {
        "prompt_ids": pair.chosen.ids[: pair.start].tolist(),
        "chosen_ids": pair.chosen.ids[pair.start : pair.chosen_stop].tolist(),
        "rejected_ids": pair.rejected.ids[pair.start : pair.rejected_stop].tolist(),
        "task_id": pair.chosen.task_id,
    }


def write_sft(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write samples for SFT."""
    return write_table(path, [sft_row(sample) for sample in samples], _SFT, force=options.force)


def write_grpo(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write samples for GRPO."""
    return write_table(path, [grpo_row(sample) for sample in samples], _GRPO, force=options.force)


def write_dpo(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write the pairs among samples for DPO.

    Raises:
        SampleError: there is none.
    """
    found = pairs(samples, options.margin)
    if not found:
        raise SampleError(
            f"{len(samples)} samples hold no pair: it takes two tries of one task with rewards more than "
            f"{options.margin:g} apart that part at an action; add tries with `--group`"
        )
    return write_table(path, [dpo_row(pair) for pair in found], _DPO, force=options.force)
