"""Stage `measure`: a version plays held-out tasks, several seeds each; the same seeds for every version."""

from __future__ import annotations

from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.config import LineConfig
from silva.loops.line.play import measured, play, tasks_named, told
from silva.loops.line.verdict import Verdict, judge
from silva.loops.line.weights import playing
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Measure the base (round 0), or the round's candidate, on `dev`."""
    version = str(loop.given(f"round-{stage.round}.register" if stage.round else "base")["version"])
    return measure(loop, stage, version, "dev")


def measure(loop: Loop[LineConfig], stage: Stage, version: str, part: str) -> Json:
    """Play a part with a version.

    Raises:
        UsageError, MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.measure
    seed = seed_of(loop.config.seed, f"measure.{part}")
    ids = measured(loop, part, seed)
    run = f"{loop.config.line}.{part}.{version}"
    more = {
        "model": playing(loop, version),
        "group": settings.seeds,
        "seed": seed,
        "sampling": {"temperature": settings.temperature},
    }
    return {"run": run, "version": version, "part": part, **told(play(loop, stage, run, tasks_named(loop, ids), more))}


def compared(loop: Loop[LineConfig], left: str, right: str, part: str) -> Verdict:
    """Two versions that were both measured on a part."""
    lake = Lake.open(loop.lake, mode="read")
    one, other = (lake.trajectories(run_id=f"{loop.config.line}.{part}.{version}") for version in (left, right))
    return judge(one, other, left, right)
