"""Stage `attack`: the head plays some of `train` under every attack that is learnt from."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.head import head_of
from silva.loops.line.play import drawn, learnt, tasks_named
from silva.loops.line.stages.rollout import attempts
from silva.loops.safety.config import SafetyConfig
from silva.loops.safety.held import attackable, summed
from silva.models.local.shared import sharing
from silva.tree import Json


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Play; each attack is a run of its own.

    Raises:
        UsageError: no task is left, or the environment or model is not known.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.rounds[stage.round - 1]
    version = head_of(loop, stage)
    ids = drawn(attackable(loop, learnt(loop, settings.tags)), settings.tasks, stage.seed)
    runs: list[str] = []
    with sharing():
        for place, attack in enumerate(loop.config.attacks.learn, 1):
            runs.append(loop.run_name(stage, f"a{place}"))
            attempts(loop, stage, runs[-1], version, tasks_named(loop, ids), attack.stages())
    return {"version": version, "run": runs[0], **summed(loop, runs)}
