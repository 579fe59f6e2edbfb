"""Stage `guard`: the base (round 0) or the round's candidate plays `dev` under what was held out."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.safety.config import SafetyConfig
from silva.loops.safety.held import guard
from silva.tree import Json


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Attack.

    Raises:
        UsageError, MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    version = str(loop.given(f"round-{stage.round}.register" if stage.round else "base")["version"])
    return guard(loop, stage, version, "dev")
