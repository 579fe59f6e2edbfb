"""Silva's samples as TRL's rollout worker: what the trainer drains is what the buffer handed out, and nothing is drawn
in this process.

    next_step ─▶ groups from the source ─▶ RolloutSample each ─▶ rollout_buffer ─▶ TRL

TRL counts versions from 1 (the weights it was started with), anew in every process; a sample's is told by its group's
staleness, so that TRL's own limit sees what the buffer saw.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import numpy as np
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from silva.errors import UsageError
from silva.train.sample import Sample, SampleError
from silva.train.writers.split import carried


class Rollouts:
    """See the module; TRL's `RolloutWorkerProtocol`. `follow` binds it to a source before training."""

    def __init__(self) -> None:
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, Any]] = queue.Queue()
        self._version = 0
        self._source: Any = None
        self._count = 0
        self._context = 0
        self._begun: Callable[[], None] = lambda: None

    def follow(self, source: Any, count: int, context: int, begun: Callable[[], None]) -> None:
        """Drain this source from now on.

        Args:
            source: a `BufferSource`.
            count: groups a step.
            context: the most ids the policy reads.
            begun: called once TRL says that rollouts may begin.
        """
        self._source, self._count, self._context, self._begun = source, count, context, begun

    def next_step(self) -> int:
        """Fill the queue with the next step's samples and say how many they are; 0 where the run is to stop.

        Raises:
            SampleError: one cannot be trained on.
            UsageError: none of them carries loss.
        """
        groups = self._source.take(self._count)
        if not groups:
            return 0
        ages = self._source.staleness[-len(groups) :]
        first = self._source.position - len(groups)
        found = 0
        for place, (group, age) in enumerate(zip(groups, ages, strict=True)):
            for sample in group:
                if sample.mask.any():
                    self.rollout_buffer.put_nowait(self._taken(sample, first + place, self._version - age))
                    found += 1
        if not found:
            raise UsageError(f"groups {first + 1} to {first + len(groups)}: no sample of theirs carries loss")
        return found

    def start(self) -> None:
        """See TRL's protocol: the first weights are in place."""
        self._begun()

    def stop(self) -> None:
        """See TRL's protocol: who grows is not this worker's to stop."""

    def update_model_version(self, model_version: int) -> None:
        """See TRL's protocol."""
        self._version = model_version

    def check_health(self, stale_after_s: float) -> None:
        """See TRL's protocol; it asks where the queue ran empty in the middle of a step.

        Raises:
            UsageError: always, for the step was whole when it was put there.
        """
        raise UsageError("engine trl-async: TRL took fewer samples than the step has; it must have left some out")

    def _taken(self, sample: Sample, group: int, version: int) -> RolloutSample:
        if len(sample) > self._context:
            raise SampleError(f"{sample.name}: {len(sample)} ids, the policy's context holds {self._context}")
        if sample.images:
            raise SampleError(f"{sample.name}: it shows images, which this policy cannot see")
        mask = carried(sample)
        if mask[0]:
            raise SampleError(f"{sample.name}: nothing stands before the first drawn id; leave it out")
        if np.isnan(sample.logprobs[mask]).any():
            raise SampleError(f"{sample.name}: it has no log-probabilities, which TRL's GRPO needs")
        values = np.unique(sample.advantages[mask]) if mask.any() else np.zeros(1, np.float32)
        if len(values) > 1:
            raise SampleError(f"{sample.name}: its advantages differ by position; TRL has one a sample")
        return RolloutSample(
            prompt=[],
            completion=[],
            input_ids=sample.ids.astype(np.int64),
            completion_mask=mask.astype(np.int64),
            old_log_probs=np.where(mask, sample.logprobs, 0.0).astype(np.float32),
            advantage=float(values[0]),
            model_version=version,
            group_id=group,
            metrics={"reward": float(sample.reward)},
        )
