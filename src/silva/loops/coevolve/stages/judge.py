"""Stage `judge`: GRPO is one training, so its newest version plays on; one that is proven worse does not."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, before
from silva.loops.line.config import LineConfig
from silva.loops.line.stages.decide import judged
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Decide.

    Raises:
        UsageError: others have promoted meanwhile.
    """
    earlier = before(stage, loop.plan)
    measured = [
        str(said["version"]) for each in earlier if each.kind == "measure" and (said := loop.outputs(each.name))
    ]
    mine = str(loop.given(f"round-{stage.round}.register")["version"])
    last = next((each for each in reversed(measured) if each != mine), "")
    return judged(loop, stage, lambda verdict: not verdict.proven_worse, "proven worse", last)
