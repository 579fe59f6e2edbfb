"""What a model says of a batch's targets: the one door to its weights, so that they may lie in parts behind it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from silva.train.engines.microbatches import MicroBatch
from silva.train.engines.token_logprobs import token_logprobs


class TargetLogprobs(torch.nn.Module):
    """A model and how it is asked.

    Args:
        model: of the llama family.
        temperature: divides its logits.
    """

    def __init__(self, model: Any, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, batch: MicroBatch, more: Tensor | None = None) -> Tensor:
        """Log-probabilities at each of the batch's L positions with loss, with gradient, in float32.

        Args:
            batch: on the model's device.
            more: ids besides the target, [L, K].

        Returns:
            [L, 1 + K], the target's first.
        """
        output = self.model.model(
            input_ids=batch.ids, position_ids=batch.positions, use_cache=False, segments=batch.segments
        )
        ids = batch.targets[:, None] if more is None else torch.cat([batch.targets[:, None], more], dim=1)
        hidden = output.last_hidden_state[0, batch.read_at]
        return token_logprobs(hidden, self.model.lm_head.weight, ids, self.temperature)
