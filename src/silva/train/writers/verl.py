"""verl: rows with the fields of `AgentLoopOutput` (verl/experimental/agent_loop/agent_loop.py of verl 0.9.1).

    prompt_ids | response_ids | response_mask | response_logprobs | reward_score | num_turns | metrics | extra_fields

An agent loop that reads such a file gives back `AgentLoopOutput(**row)` (docs/guides/samples.md). Images go by
reference in `extra_fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from silva.train.sample import Sample
from silva.train.writers import Options
from silva.train.writers.split import reward, split
from silva.train.writers.table import FLOATS, IDS, write_table

_METRICS = pa.struct({"generate_sequences": pa.float64(), "tool_calls": pa.float64()})
_EXTRA = pa.struct(
    {
        "run_id": pa.string(),
        "task_id": pa.string(),
        "trajectory_id": pa.string(),
        "index": pa.int64(),
        "segment": pa.int64(),
        "versions": pa.list_(pa.string()),
        "images": pa.list_(pa.struct({"hash": pa.string(), "position": pa.int64()})),
    }
)
_SCHEMA = pa.schema(
    {
        "prompt_ids": IDS,
        "response_ids": IDS,
        "response_mask": IDS,
        "response_logprobs": FLOATS,
        "reward_score": pa.float64(),
        "num_turns": pa.int64(),
        "metrics": _METRICS,
        "extra_fields": _EXTRA,
    }
)


def agent_loop_output(sample: Sample) -> dict[str, Any]:
    """The fields of one `AgentLoopOutput`; `response_logprobs` is None where one is not known.

    Raises:
        SampleError: nothing was drawn, or a weight is neither 0 nor 1.
    """
    parts = split(sample)
    return {
        "prompt_ids": parts.prompt,
        "response_ids": parts.response,
        "response_mask": parts.mask,
        "response_logprobs": parts.logprobs,
        "reward_score": reward(sample),
        "num_turns": int(sample.attributes.get("messages", 0)),
        "metrics": {"generate_sequences": 0.0, "tool_calls": 0.0},
        "extra_fields": {
            "run_id": sample.run_id,
            "task_id": sample.task_id,
            "trajectory_id": sample.trajectory_id,
            "index": sample.index,
            "segment": sample.segment,
            "versions": list(sample.versions),
            "images": [{"hash": image.hash, "position": image.position} for image in sample.images],
        },
    }


def write(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write the samples; return how many."""
    return write_table(path, [agent_loop_output(sample) for sample in samples], _SCHEMA, force=options.force)
