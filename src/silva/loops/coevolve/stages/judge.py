"""Stage `judge`: GRPO is one training, so its newest version plays on; one that is proven worse does not."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.stages.decide import judged
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Decide.

    Raises:
        UsageError: others have promoted meanwhile.
    """
    return judged(loop, stage, lambda verdict: not verdict.proven_worse, "proven worse")
