"""Rollouts under attack, in this process, and what they left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.redteam.attacking import Attacking
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
    functions: str = "obedient",
    **more: Any,
) -> Any:
    """One or more episodes of sums through a tool, under some stages."""
    async with ScriptedServer(Script(function=f"{functions}.py:{model}", folder=str(HERE))) as server:
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


async def halted(home: Path, stages: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    """As `play`, of an attack; this process's part of the run ends behind the second turn."""
    seen, schedulers = Attacking.on_observation, list[Any]()

    async def halts(self: Attacking, live: Any, observation: Any) -> Any:
        if live.path.turns == 2:
            schedulers[-1].stop()
            await asyncio.sleep(60)
        return await seen(self, live, observation)

    hooks = Hooks(on_start=lambda scheduler, ledger, total: schedulers.append(scheduler))
    with monkeypatch.context() as patch:
        patch.setattr(Attacking, "on_observation", halts)
        return await play(home, stages, hooks=hooks, **more)


def read(home: Path) -> tuple[Trajectory, list[Node], list[Node]]:
    """The one trajectory of the run, its walk, and every node there is."""
    with Lake.open(home / "lake", mode="read") as lake:
        (trajectory,) = lake.trajectories(run_id="r")
        return trajectory, list(lake.walk(trajectory)), lake.nodes(run_id="r")
