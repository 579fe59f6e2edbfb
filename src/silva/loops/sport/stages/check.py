"""Stage `check`: how often the verifier was right, before anything is trained on what it prefers.

    some pairs ─▶ the state before each ─▶ chosen, and from there on │ who knows better: the environment's expert,
                                           rejected, and from there on │ or the policy many times ─▶ right, wrong, even

The expert tells a side that can still succeed from one that cannot, and a short way from a long one; the policy tells
which side it does more with. Where both sides come to the same the pair says nothing of the verifier.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from silva.curate.pairs import StepPair, read_pairs
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.progress import teller
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.weights import playing
from silva.loops.sport.config import SportConfig
from silva.loops.sport.searched import STAGE
from silva.report.interval import proportion
from silva.rollout.branching.grow import grow, new_turns, settings_of
from silva.rollout.branching.shoots import Growth, Shoot, growth_of
from silva.rollout.config import RolloutConfig
from silva.rollout.snapshots.point import indexes
from silva.tree import Json, Trajectory, Tree, digest

Side = tuple[StepPair, tuple[float, float]]
"""A pair with what its sides are worth, chosen first."""

NEVER = -1_000.0
"""What a side is worth from which nobody succeeds; below any number of turns that an episode can have."""


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Check.

    Raises:
        Nothing: the verifier was right too seldom to be learnt from.
        UsageError, MissingError, UnreachableError, StoreError: as `grow`.
    """
    wanted = loop.config.check
    given = loop.given(f"round-{stage.round}.pairs")
    found = read_pairs(loop.folder / str(given["file"]))
    # Drawn by digest, not the first of them: those are of one task.
    some = sorted(found, key=lambda each: digest(str(stage.seed), each.chosen_id, each.rejected_id))[: wanted.pairs]
    sides = asyncio.run(_sides(loop, stage, some)) if some else []
    of_task: dict[str, list[bool]] = {}
    for pair, (better, worse) in sides:
        if better != worse:
            of_task.setdefault(pair.task_id, []).append(better > worse)
    told = [each for task in of_task.values() for each in task]
    right, wrong = told.count(True), told.count(False)
    share = proportion(list(of_task.values()))
    accuracy = None if share is None else share.value
    if accuracy is not None and accuracy < wanted.least:
        raise Nothing(
            f"verifier {found[0].by}: right in {right} of {right + wrong} pairs, less "
            f"than check.least {wanted.least:g}: what it prefers is not worth learning"
        )
    return {
        "by": wanted.by,
        "pairs": len(some),
        "told": right + wrong,
        "right": right,
        "even": len(sides) - right - wrong,
        "accuracy": accuracy,
        "low": None if share is None else share.low,
        "high": None if share is None else share.high,
    }


async def _sides(loop: Loop[SportConfig], stage: Stage, pairs: Sequence[StepPair]) -> list[Side]:
    """What both sides of each pair are worth, chosen first."""
    steps = list(dict.fromkeys((each.tree_id, each.parent_id, side) for each in pairs for side in _both(each)))
    tries = 1 if loop.config.check.by == "expert" else loop.config.check.tries
    async with Lake.open(loop.lake) as lake:
        begun = await asyncio.to_thread(lake.run, loop.run_name(stage))
        # A check that was cut off is gone on with as it was begun: its own trajectories have taken their places.
        growth = growth_of(begun) if begun is not None else _growth(lake, steps, tries)
        tell, ended = teller(loop, stage, "paths"), itertools.count(1)

        def on_end(trajectory: Trajectory) -> None:
            tell(next(ended), len(growth.shoots))

        grown = await grow(lake, await _settings(loop, stage, lake), growth, probe=False, on_end=on_end)
    of_shoot = {(each.tree_id, each.index): each for each in grown.trajectories}
    worth: dict[str, float] = {}
    for place, (_, _, node_id) in enumerate(steps):
        shoots = growth.shoots[place * tries : (place + 1) * tries]
        paths = [of_shoot[each.tree_id, each.index] for each in shoots if (each.tree_id, each.index) in of_shoot]
        if paths:
            worth[node_id] = fmean(_worth(each, loop.config.check.by) for each in paths)
    known = [each for each in pairs if {each.chosen_id, each.rejected_id} <= worth.keys()]
    return [(each, (worth[each.chosen_id], worth[each.rejected_id])) for each in known]


def _both(pair: StepPair) -> tuple[str, str]:
    return pair.chosen_id, pair.rejected_id


def _growth(lake: Lake, steps: Sequence[tuple[str, str, str]], tries: int) -> Growth:
    """Each step taken again from the state before it, and gone on from, `tries` times."""
    trees: dict[str, Tree] = {}
    free: dict[str, int] = {}
    shoots: list[Shoot] = []
    for tree_id, parent_id, node_id in steps:
        if tree_id not in trees:
            trees[tree_id] = lake.tree(tree_id)
            free[tree_id] = indexes(lake, trees[tree_id], 1)[0]
        action = trees[tree_id].node(node_id).message
        for _ in range(tries):
            shoots.append(Shoot(tree_id=tree_id, node_id=parent_id, index=free[tree_id], action=action))
            free[tree_id] += 1
    return Growth(shoots=tuple(shoots))


async def _settings(loop: Loop[SportConfig], stage: Stage, lake: Lake) -> RolloutConfig:
    """The settings of the round's search, without the search."""
    searched = loop.given(f"round-{stage.round}.search")
    values = settings_of(await asyncio.to_thread(lake.run, str(searched["run"])))
    values["stages"] = {name: each for name, each in values.get("stages", {}).items() if name != STAGE}
    more: dict[str, Any] = {"policy": "expert"}
    if loop.config.check.by == "policy":
        more = {"model": playing(loop, str(searched["version"]))}
    more |= {"run": loop.run_name(stage), "lake": loop.lake, "env": [loop.config.env], "pool": loop.config.play.pool}
    return RolloutConfig.model_validate({**values, **more})


def _worth(trajectory: Trajectory, by: str) -> float:
    """Of the policy, what it came to; of the expert, how few turns it needed, or that it could not."""
    if by == "policy":
        return float(trajectory.outcome.score or 0.0)
    return -float(new_turns(trajectory)) if trajectory.outcome.success else NEVER
