"""Whether training has gone wrong: judged by its loss and its gradient alone, with nothing but its own past.

loss or gradient no finite number ─▶ diverged
loss > factor x median of the last losses, and > that median + margin ─▶ diverged
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median

from silva.train.config import DivergenceConfig


class DivergenceWatch:
    """The last losses of a run. `losses` is what it has to be given again after a resume."""

    def __init__(self, config: DivergenceConfig, losses: Sequence[float] = ()) -> None:
        self._config = config
        self._losses = deque(losses, maxlen=config.window)

    @property
    def losses(self) -> list[float]:
        """The losses it judges by, oldest first."""
        return list(self._losses)

    def of_loss(self, loss: float) -> str:
        """Why this loss says that training has diverged, or "" where it does not; then it joins the others."""
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if len(self._losses) >= 3:
            usual = median(self._losses)
            if loss > self._config.factor * abs(usual) and loss > usual + self._config.margin:
                return f"the loss is {loss:.4g}, its median over the last {len(self._losses)} steps {usual:.4g}"
        self._losses.append(loss)
        return ""

    def of_gradient(self, norm: float) -> str:
        """Why this gradient says so, or ""."""
        return "" if math.isfinite(norm) else f"the gradient's norm is {norm}"
