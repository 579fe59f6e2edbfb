"""Samples of a few ids, for tests of algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from silva.train.sample import Sample


def sample(ids: list[int], drawn: list[int], **told: Any) -> Sample:
    """A sample in which the positions `drawn` were drawn and carry loss, unless `mask` says otherwise."""
    n = len(ids)
    was_drawn = np.zeros(n, bool)
    was_drawn[drawn] = True
    given: dict[str, Any] = {
        "mask": was_drawn.copy(),
        "logprobs": np.where(was_drawn, -1.0, 0.0).astype(np.float32),
        "advantages": np.zeros(n, np.float32),
        "weights": np.ones(n, np.float32),
        "run_id": "run",
        "task_id": "task",
    }
    return Sample(ids=np.array(ids, np.int32), drawn=was_drawn, **{**given, **told})


def group(rewards: list[float], **told: Any) -> list[Sample]:
    """One sample a reward, each of its own trajectory."""
    return [
        sample([5, 6, 7, 8], [2, 3], reward=reward, index=i, trajectory_id=f"t{i}", versions=("v1",), **told)
        for i, reward in enumerate(rewards)
    ]
