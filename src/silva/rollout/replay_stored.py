"""A stored trajectory taken again where it was grown.

trajectory ─▶ its run, task and walk ─┬▶ its environment, with the run's options ─▶ Replayed
                                      └▶ the program that was its agent ─────────▶ ReplayedProgram
"""

from __future__ import annotations

from typing import Any

from silva.envs import HostPool, Registry
from silva.errors import UsageError
from silva.lake import Lake
from silva.rollout.added_tools import AddedPool
from silva.rollout.config import PROGRAM
from silva.rollout.program_replay import ReplayedProgram, replay_program
from silva.rollout.replay import Replayed, replay, replay_roles
from silva.tree import Node, Trajectory, in_role, roles_of
from silva.tree.role import ROLE


async def replay_stored(
    lake: Lake, trajectory: Trajectory, *, env: str | None = None, seconds: float = 60.0
) -> Replayed | ReplayedProgram:
    """Take a trajectory's actions again.

    Args:
        lake: what holds it.
        trajectory: what to take again.
        env: its environment, where it is registered by another name.
        seconds: how long one call of the environment may take (a program: ten times that in all).

    Raises:
        UsageError: its task is not there, or its environment is not known.
        EnvError: the environment or its host failed.
        MissingError: its environment or program is not installed.
    """
    walk, run, task = lake.walk(trajectory), lake.run(trajectory.run_id), lake.task(trajectory)
    if task is None:
        raise UsageError(f"trajectory {trajectory.id[:12]}: the lake does not hold its task {trajectory.task_id}")
    if run is not None and trajectory.agent.startswith(PROGRAM):
        walks = [walk, *_other_walks(lake, trajectory)]
        return await replay_program(run, task, trajectory, walks, seconds * 10)
    known = run is None or trajectory.env in run.envs or len(run.envs) != 1
    name = env or (trajectory.env if known or run is None else run.envs[0])
    config = run.config if run is not None else {}
    options, registry = config.get("options") or {}, Registry.load()

    def one(each: str) -> dict[str, Any]:
        return {"instances_per_host": 1, "step_timeout": seconds, "options": options.get(each, {})}

    added = {each: HostPool(registry.entry(each), **one(each)) for each in config.get("tools") or ()}
    entry = registry.entry(name)
    pool = AddedPool(entry, added, **one(name)) if added else HostPool(entry, **one(name))
    async with pool, pool.lease() as instance:
        if roles_of(trajectory):
            return await replay_roles(instance, task, trajectory.seed, _walks(lake, trajectory))
        return await replay(instance, task, trajectory.seed, walk)


def _walks(lake: Lake, trajectory: Trajectory) -> dict[str, tuple[Node, ...]]:
    """The walk of every role that acted, the one that the episode is about before the others."""
    about = str(trajectory.attributes.get(ROLE))
    names = [about, *(name for name in roles_of(trajectory) if name != about)]
    return {name: lake.walk(in_role(trajectory, name)) for name in names}


def _other_walks(lake: Lake, trajectory: Trajectory) -> list[tuple[Node, ...]]:
    """The walks of a trajectory beside its main one: sub-agents, retries, what was said before a summary."""
    others = [leaf for leaf in trajectory.attributes.get("leaves", ()) if leaf != trajectory.leaf_id]
    if not others:
        return []
    tree = lake.tree(trajectory.tree_id)
    return [tuple(tree.walk(leaf)) for leaf in others if leaf in tree]
