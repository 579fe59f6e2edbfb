"""slime: the file that `--load-debug-rollout-data` and `slime.rollout.forge_load` read. Fields as in
slime/utils/types.py at commit 624b824a.

    {"rollout_id": 0, "samples": [Sample.to_dict(), …]} ─▶ pickle ─▶ torch's file: a zip of data.pkl, version, byteorder

The file holds no tensor, so it needs no torch to be written. Samples of one task have one `group_index`; those of one
trajectory have one `rollout_id`, which slime asks of the parts of one rollout so that it counts as one.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from silva.train.sample import Sample
from silva.train.whole_file import Whole
from silva.train.writers import Options
from silva.train.writers.split import reward, split

_STATUS = {"completed": "completed", "truncated": "truncated", "failed": "failed"}


def sample_dicts(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """What slime's `Sample.from_dict` takes, one for each sample.

    Raises:
        SampleError: nothing was drawn in one, or a weight is neither 0 nor 1.
    """
    groups: dict[tuple[str, str], int] = {}
    rollouts: dict[str, int] = {}
    made: list[dict[str, Any]] = []
    for number, sample in enumerate(samples):
        parts = split(sample)
        made.append(
            {
                "group_index": groups.setdefault((sample.run_id, sample.task_id), len(groups)),
                "index": number,
                "rollout_id": rollouts.setdefault(sample.trajectory_id or f"#{number}", len(rollouts)),
                "tokens": parts.prompt + parts.response,
                "response_length": len(parts.response),
                "loss_mask": parts.mask,
                "rollout_log_probs": parts.logprobs,
                "reward": reward(sample),
                "weight_versions": list(sample.versions),
                "status": _STATUS.get(sample.attributes.get("status", ""), "completed"),
                "metadata": {
                    "run_id": sample.run_id,
                    "task_id": sample.task_id,
                    "trajectory_id": sample.trajectory_id,
                    "segment": sample.segment,
                    "images": [{"hash": image.hash, "position": image.position} for image in sample.images],
                },
            }
        )
    return made


def write(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write the samples; return how many."""
    body = pickle.dumps({"rollout_id": 0, "samples": sample_dicts(samples)}, protocol=2)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, data in (("data.pkl", body), ("byteorder", b"little"), ("version", b"3\n")):
            # A fixed date: the same samples give the same bytes.
            file.writestr(zipfile.ZipInfo(f"archive/{name}"), data)
    with Whole(path, options.force) as file:
        file.write(archive.getvalue())
    return len(samples)
