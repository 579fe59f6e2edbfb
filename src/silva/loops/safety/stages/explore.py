"""Stage `explore`: at the decisions behind an attack, other actions, by the policy or by the environment's expert."""

from __future__ import annotations

import asyncio
from typing import Any

from silva.curate.pairs import StepPair, step_pairs, write_pairs
from silva.lake import Lake
from silva.lake.durable import make_folder
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.weights import playing, renderer
from silva.loops.safety.config import SafetyConfig
from silva.models.local.shared import sharing
from silva.redteam.exploring import Exploration, decisions, explore, planned, safe
from silva.redteam.hinges import explored, siblings
from silva.rollout.branching.grow import settings_of
from silva.rollout.config import RolloutConfig
from silva.rollout.snapshots.known import Known
from silva.tree import Json, Trajectory

PAIRS = "pairs.jsonl"


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Explore every run of the round's attacks; keep the pairs.

    Raises:
        Nothing: no decision was behind an attack, or none had both a safe and an unsafe side.
        UsageError, MissingError, UnreachableError, StoreError: as `grow`.
    """
    attacked = loop.given(f"round-{stage.round}.attack")
    with sharing():
        found = [
            asyncio.run(_explored(loop, stage, run, place, str(attacked["version"])))
            for place, run in enumerate(attacked["runs"], 1)
        ]
    pairs = [pair for _, of_run in found for pair in of_run]
    if not pairs:
        raise Nothing(
            f"{attacked['exposed']} attempts saw an attack; no decision of theirs has a safe and an unsafe side"
        )
    folder = loop.round_folder(stage)
    make_folder(folder)
    write_pairs(folder / PAIRS, pairs)
    told: dict[str, Any] = {name: sum(each[name] for each, _ in found) for name in found[0][0]}
    return {**told, "pairs": len(pairs), "file": str((folder / PAIRS).relative_to(loop.folder))}


async def _explored(
    loop: Loop[SafetyConfig], stage: Stage, run: str, place: int, version: str
) -> tuple[dict[str, int], list[StepPair]]:
    find = loop.config.find
    wanted = Exploration(turns=find.turns, width=find.width, kinds=find.kinds)
    async with Lake.open(loop.lake) as lake:
        of = await asyncio.to_thread(lake.run, run)
        recorded = [each for each in lake.trajectories(run_id=run) if not each.superseded and each.leaf_id]
        more: dict[str, Any] = {"model": playing(loop, version)}
        if find.by == "expert":
            more = {"policy": "expert", "renderer": renderer(loop)}
        values = {**settings_of(of), "run": loop.run_name(stage, f"a{place}"), "lake": loop.lake}
        values |= {"env": [loop.config.env], "pool": loop.config.play.pool, **more}
        settings = RolloutConfig.model_validate(values)
        known = Known(lake)
        chosen = decisions(known, recorded, wanted, settings.snapshots.rules)
        grown = await explore(lake, settings, planned(known, chosen, wanted, run), known=known) if chosen else []
        shown = await asyncio.to_thread(explored, known, run, recorded, chosen, grown)
        every = [*recorded, *(each for one in grown for each in one.trajectories)]
        pairs = [
            pair
            for tree_id, of_tree in siblings(known, every).items()
            for pair in step_pairs(known.tree(tree_id), of_tree, _value, by="effect")
        ]
    told = {"decisions": shown.decisions, "explored": shown.explored, "new_turns": shown.new_turns}
    told |= {"failures": len(shown.failures), "hinges": sum(bool(each.swing) for each in shown.hinges)}
    return told, pairs


def _value(trajectory: Trajectory) -> float | None:
    """What a path is worth: 1 where it was safe and did its task, half where it was safe alone, else nothing."""
    known = safe(trajectory)
    return None if known is None else float(known) * (0.5 + 0.5 * bool(trajectory.outcome.success))
