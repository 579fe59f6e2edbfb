"""What the lake tells of the rollouts of a run, to a gateway that was started again or has let go of them."""

from __future__ import annotations

import msgspec

from silva.models.gateway.endings import is_unended
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.rollout import Rollout, rollout_of
from silva.models.gateway.roster import Roster
from silva.tree import Trajectory


async def stored_rollouts(keeper: Keeper, run: str) -> tuple[Roster, list[Rollout]]:
    """All rollouts of a run, and those of them that were at work."""
    stored = await keeper.trajectories(run)
    return Roster(stored), [rollout_of(each) for each in stored if is_unended(each)]


async def retried(keeper: Keeper, rollout: Rollout) -> list[Trajectory]:
    """The earlier attempts at a rollout's place, as they stand once it is tried again: their cost counts, no more."""
    earlier = [] if not rollout.attempt else await keeper.trajectories(rollout.run_id)
    return [
        msgspec.structs.replace(each, superseded=True)
        for each in earlier
        if (each.task_id, each.index) == (rollout.task_id, rollout.index)
        and each.attempt < rollout.attempt
        and not each.superseded
    ]


async def rollout_named(keeper: Keeper, run: str, name: str) -> Rollout | None:
    """The rollout of that name, wherever it has its place; None where the lake has none."""
    found = map(rollout_of, await keeper.trajectories(run))
    return next((rollout for rollout in found if rollout.name == name), None)
