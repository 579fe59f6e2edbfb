"""TRL's asynchronous trainer with a step that is the buffer's, and what it is told from outside.

get_train_dataloader ─▶ StepBatches; training_step ─▶ TRL's, for each micro-batch; its loss ─▶ watched
on_step_end, on_log, on_save ─▶ `Told`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader
from transformers import TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOTrainer  # pyright: ignore[reportPrivateImportUsage]
from trl.experimental.async_grpo.async_grpo_trainer import DataCollatorForRollout, RolloutQueueDataset

from silva.train.online.trl_async.batches import MICRO, SHARE, StepBatches


class StepTrainer(AsyncGRPOTrainer):
    """See the module.

    Args:
        micro_tokens: bounds what is computed at once.
        more: of TRL's trainer.
    """

    def __init__(self, model: str, *, micro_tokens: int, **more: Any) -> None:
        super().__init__(model, **more)
        self._micro_tokens = micro_tokens
        self.watch: Callable[[float], None] = lambda loss: None
        """Given each step's loss before it is applied; raises to end training."""

    def get_train_dataloader(self) -> Any:
        """See TRL; one batch a step, and none taken before it is due."""
        metrics = self._metrics["train"]
        whole: Any = self  # TRL types these more widely than an asynchronous run has them
        samples = RolloutQueueDataset(
            rollout_queue=self.rollout_queue,
            model_version_fn=lambda: self.model_version,
            check_health_fn=whole.rollout_worker.check_health,
            stale_after_s=whole.args.heartbeat_stale_after_s,
            metrics=metrics,
            max_staleness=whole.args.max_staleness,
        )
        self._rollout_dataset = samples
        collate = DataCollatorForRollout(
            whole.processing_class.pad_token_id, 1, groups_trained=self._trained_groups, metrics=metrics
        )
        next_step: Any = whole.rollout_worker.next_step
        return DataLoader(StepBatches(samples, next_step, collate, self._micro_tokens), batch_size=None)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> Tensor:
        """See TRL; a step's micro-batches, one after the other."""
        losses = [super(StepTrainer, self).training_step(model, each, num_items_in_batch) for each in inputs[MICRO]]
        loss = sum(losses[1:], losses[0])
        self.watch(float(loss))
        return loss

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """See TRL; the loss of a micro-batch, in its share of the step."""
        share = inputs.pop(SHARE)[0]
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch) * share


class Told(TrainerCallback):
    """Tells outside what the trainer does. Added before training; its step's end comes after TRL's own."""

    def __init__(
        self,
        stopping: Callable[[], bool],
        logged: Callable[[int, dict[str, Any]], None],
        saved: Callable[[int], None],
    ) -> None:
        self._stopping, self._logged, self._saved = stopping, logged, saved
        self._last = -1

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop where somebody asked to, after a checkpoint."""
        if self._stopping():
            control.should_training_stop = control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """There is no more to train on: keep what there is."""
        if state.global_step and self._last != state.global_step:
            control.should_save = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """A step's figures."""
        if logs and "loss" in logs:
            self._logged(int(state.global_step), logs)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A checkpoint is on disk."""
        self._last = state.global_step
        self._saved(int(state.global_step))
