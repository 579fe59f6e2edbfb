"""What the parts of the guidance benchmark share: a run of chains that never end by themselves, its model, its walks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from silva.errors import StoreError
from silva.lake import Lake
from silva.models.scripted import Latency, Script, ScriptedServer
from silva.rollout import RolloutConfig
from silva.tree import Node, Trajectory

MODEL = '''
def reply(request):
    """Adds 1 for as long as it may."""
    made = sum(message["role"] == "tool" for message in request["messages"])
    return {"tool_calls": [{"name": "add", "arguments": {"number": 1}, "id": f"c{made}"}]}
'''


def settings(folder: Path, url: str, turns: int, episodes: int) -> RolloutConfig:
    """A run of chains that last `turns` turns."""
    return RolloutConfig.model_validate(
        {
            "run": "r",
            "env": ("arithmetic",),
            "lake": str(folder / "lake"),
            "model": f"{url}#scripted",
            "tasks": {"split": "chain", "limit": 1},
            "group": episodes,
            "pool": episodes,
            "budget": {"turns": turns},
            "retries": 0,
            "hosts": {"inline": True},
        }
    )


def serve(folder: Path, seconds: float) -> ScriptedServer:
    """The model; a reply takes `seconds` in the mean."""
    (folder / "model.py").write_text(MODEL)
    return ScriptedServer(Script(function="model.py:reply", folder=str(folder), latency=Latency(mean=seconds)))


def walks(folder: Path) -> list[tuple[Trajectory, list[Node]]]:
    """Every attempt with its nodes, root first."""
    with Lake.open(folder / "lake", mode="read") as lake:
        return [(each, list(lake.walk(each))) for each in lake.trajectories(run_id="r")]


def after(folder: Path, speak: Any) -> None:
    """Speak once the run is in its lake."""
    while True:
        try:
            with Lake.open(folder / "lake", mode="read") as lake:
                if lake.run("r") is not None and lake.nodes(run_id="r", limit=1):
                    break
        except StoreError:
            time.sleep(0.05)  # there is no lake yet
            continue
        time.sleep(0.05)
    speak()
