"""What an agent's model would read and write in an environment, by letting the expert play: no model is needed.

environment ─▶ expert episodes ─▶ walks ─▶ as the agent shows them (react: words, tools: calls) ─▶ conversations
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from silva.errors import UsageError
from silva.lake import Lake
from silva.rollout.config import RolloutConfig
from silva.rollout.react import render
from silva.rollout.run import run_rollout
from silva.tree import Message, Tool, Trajectory

Conversation = tuple[tuple[Message, ...], tuple[Tool, ...]]


async def expert_conversations(
    env: str, *, form: Literal["tools", "react"] = "react", split: str = "train", limit: int = 200, seed: int = 0
) -> list[Conversation]:
    """Conversations of the expert on the first tasks of a split, by task id.

    Raises:
        UsageError: the environment or split is not known, or its expert never came to an end.
        MissingError: the environment must be installed first.
    """
    with tempfile.TemporaryDirectory(prefix="silva-expert-") as folder:
        settings = RolloutConfig.model_validate(
            {
                "run": "expert",
                "env": env,
                "policy": "expert",
                "lake": str(Path(folder) / "lake"),
                "seed": seed,
                "tasks": {"split": split, "limit": limit},
            }
        )
        await run_rollout(settings)
        lake = Lake.open(settings.lake, mode="read")
        played = sorted(
            (t for t in lake.trajectories(run_id="expert") if t.outcome.failure is None), key=lambda t: t.task_id
        )
        if not played:
            raise UsageError(f"environment {env}: its expert finished no task of split {split!r}")
        return [shown(lake, trajectory, form) for trajectory in played]


def shown(lake: Lake, trajectory: Trajectory, form: Literal["tools", "react"]) -> Conversation:
    """A stored walk as an agent of that form shows it to its model."""
    walk = lake.walk(trajectory)
    tools: tuple[Tool, ...] = ()
    for node in walk:
        tools = tools if node.tools is None else node.tools
    messages = tuple(node.message for node in walk)
    return (render(messages, tools), ()) if form == "react" else (messages, tools)
