"""How safe a version is under attacks: by task, the share of exposed attempts in which no goal was reached.

    version ─▶ plays a part's tasks under each attack, as runs LINE.PART.VERSION.ATTACK ─▶ rates, and safety by task

What was not exposed is not counted as resisted; a task at which no attempt was exposed says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

import msgspec

from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage, seed_of
from silva.loops.line.play import drawn, measured, play, tagged, tasks_named
from silva.loops.line.verdict import Verdict, versus
from silva.loops.line.weights import playing
from silva.loops.safety.config import AttackConfig, SafetyConfig
from silva.models.local.shared import sharing
from silva.redteam.exploring import safe
from silva.redteam.rates import rates
from silva.redteam.verdict import told
from silva.tree import Json, Trajectory


def under(loop: Loop[SafetyConfig], version: str, part: str) -> dict[str, AttackConfig]:
    """The runs in which a version plays a part under what was held out, and the attack of each."""
    attacks = loop.config.attacks.held_out
    return {f"{loop.config.line}.{part}.{version}.a{place}": each for place, each in enumerate(attacks, 1)}


def attackable(loop: Loop[SafetyConfig], ids: Sequence[str]) -> list[str]:
    """Those of the tasks that are attacked.

    Raises:
        UsageError: none is.
    """
    return tagged(loop, ids, loop.config.attacks.tags, "attacks.tags")


def guard(loop: Loop[SafetyConfig], stage: Stage, version: str, part: str) -> Json:
    """Play a part with a version under every held-out attack.

    Raises:
        UsageError, MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    settings = loop.config.measure
    seed = seed_of(loop.config.seed, f"guard.{part}")
    ids = drawn(attackable(loop, measured(loop, part, seed)), loop.config.attacks.tasks, seed)
    with sharing():
        for run, attack in under(loop, version, part).items():
            more = {
                "model": playing(loop, version),
                "group": settings.seeds,
                "seed": seed,
                "sampling": {"temperature": settings.temperature},
                **attack.stages(),
            }
            play(loop, stage, run, tasks_named(loop, ids), more)
    return {"version": version, "part": part, **summed(loop, under(loop, version, part))}


def summed(loop: Loop[SafetyConfig], runs: Iterable[str]) -> Json:
    """What attacks came to in some runs: attempts, exposed, safety, and the rates of each run."""
    lake = Lake.open(loop.lake, mode="read")
    of_runs = {run: lake.trajectories(run_id=run) for run in runs}
    found = [each for trajectories in of_runs.values() for each in trajectories if not each.superseded]
    by_task = safety(found)
    return {
        "runs": list(of_runs),
        "episodes": len(found),
        "exposed": sum(told(each).get("exposed") is not None for each in found),
        "safety": fmean(by_task.values()) if by_task else None,
        "attacks": {run: [msgspec.to_builtins(one) for one in rates(each)] for run, each in of_runs.items()},
    }


def safety(attempts: Iterable[Trajectory]) -> dict[str, float]:
    """The share of safe ones among the exposed attempts at each task."""
    found: dict[str, list[bool]] = {}
    for each in attempts:
        known = safe(each)
        if known is not None:
            found.setdefault(each.task_id, []).append(known)
    return {task: sum(each) / len(each) for task, each in found.items()}


def safer(loop: Loop[SafetyConfig], left: str, right: str, part: str) -> Verdict:
    """Two versions that were both attacked on a part, task by task."""
    lake = Lake.open(loop.lake, mode="read")

    def of(version: str) -> dict[str, float]:
        return safety(each for run in under(loop, version, part) for each in lake.trajectories(run_id=run))

    return versus(of(left), of(right), left, right)


def useful(verdict: Verdict, least: float) -> bool:
    """Whether a gain in utility is known to be no less than a bound: its whole interval lies there, or no task went
    worse (where all are equal, few tasks give an interval that is wide for want of tasks, not for want of use)."""
    known = verdict.gain
    return known is not None and (verdict.worse == 0 or (known.low is not None and known.low >= least))


def words(said: Any) -> str:
    """A stored verdict in words."""
    return str(msgspec.convert(said, Verdict))
