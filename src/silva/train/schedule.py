"""The learning rate of a step: up over the warm-up, then level, or down a line or half a cosine to its floor.

Source of the cosine: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017, arXiv
1608.03983.
"""

from __future__ import annotations

import math

from silva.train.config import OptimiserConfig


def learning_rate(step: int, steps: int, config: OptimiserConfig) -> float:
    """The learning rate of update number `step`, 0 to `steps` - 1. The first is above 0 and the last of a falling
    schedule is the floor's."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / (config.warmup + 1)
    if config.schedule == "constant":
        return config.learning_rate
    done = min(1.0, (step - config.warmup) / max(1, steps - 1 - config.warmup))
    height = 1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.learning_rate * (config.floor + (1 - config.floor) * height)
