"""Rollouts under attack, in this process, and what they left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.tree import Node, Trajectory

HERE = Path(__file__).parent


async def play(
    home: Path,
    stages: dict[str, Any],
    model: str = "obeys",
    *,
    hooks: Hooks | None = None,
    resume: bool = False,
    **more: Any,
) -> Any:
    """One or more episodes of sums through a tool, under some stages."""
    async with ScriptedServer(Script(function=f"obedient.py:{model}", folder=str(HERE))) as server:
        given = {
            "run": "r",
            "env": ("arithmetic",),
            "lake": str(home / "lake"),
            "model": f"{server.url}#scripted",
            "tasks": {"split": "chain", "limit": 1},
            "budget": {"turns": 6},
            "hosts": {"inline": True},
            "retries": 0,
            "stages": stages,
            **more,
        }
        return await run_rollout(RolloutConfig.model_validate(given), resume=resume, hooks=hooks or Hooks())


def read(home: Path) -> tuple[Trajectory, list[Node], list[Node]]:
    """The one trajectory of the run, its walk, and every node there is."""
    with Lake.open(home / "lake", mode="read") as lake:
        (trajectory,) = lake.trajectories(run_id="r")
        return trajectory, list(lake.walk(trajectory)), lake.nodes(run_id="r")
