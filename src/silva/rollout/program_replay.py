"""A program's trajectory played again: the same program, the same task, and a model that says what it said before.

    trajectory ─▶ its walks as recorded turns ─▶ scripted model ─▶ the program, in a lake of its own ─▶ same walk?

A program that is deterministic given its model's replies asks what it asked before, message for message. Where it asks
something else the recording has no answer: that is the divergence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.lake import Lake
from silva.rollout.config import RolloutConfig
from silva.rollout.replay import Divergence, shown
from silva.rollout.run import run_rollout
from silva.tree import Message, Node, Record, Run, Task, Trajectory
from silva.tree.formats.tasks import write_tasks


class ReplayedProgram(Record, frozen=True, kw_only=True):
    """What came of it: turns taken, the first divergence, and the score then and now."""

    turns: int
    divergence: Divergence | None
    stored_score: float | None
    score: float | None


async def replay_program(
    run: Run, task: Task, trajectory: Trajectory, walks: Sequence[Sequence[Node]], seconds: float
) -> ReplayedProgram:
    """Play a program's trajectory again.

    Args:
        run: the run that grew it, for its configuration.
        task: its task.
        trajectory: what to play.
        walks: its walks, the main one first.
        seconds: how long the program may take.

    Raises:
        UsageError: the run's configuration cannot be used any more.
        MissingError: its environment or program is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="silva-replay-") as name:
        folder = Path(name)
        config = _config(run, trajectory, folder, seconds)
        (folder / "tasks.jsonl").write_text("".join(write_tasks([task])), encoding="utf-8")
        (folder / "turns.jsonl").write_bytes(b"".join(_line(walk) for walk in walks))
        script = {"model": trajectory.model or "recorded", "recorded": "turns.jsonl"}
        (folder / "script.yaml").write_bytes(msgspec.json.encode(script))
        result = await run_rollout(config)
        with Lake.open(config.lake, mode="read") as lake:
            played = result.trajectories[-1]
            walk = lake.walk(played)
    failure = played.outcome.failure
    return ReplayedProgram(
        turns=played.turns,
        divergence=_compare(walks[0], walk, failure.message if failure else ""),
        stored_score=trajectory.outcome.score,
        score=played.outcome.score,
    )


def _config(run: Run, trajectory: Trajectory, folder: Path, seconds: float) -> RolloutConfig:
    given: dict[str, Any] = {**run.config}
    for changed in ("run", "tasks", "budget", "retries", "sampling", "snapshots"):  # the last two never concerned it
        given.pop(changed, None)
    given |= {
        "run": "replay",
        "env": (trajectory.env,),
        "lake": str(folder / "lake"),
        "model": f"scripted:{folder / 'script.yaml'}",
        "group": 1,
        "pool": 1,
        "retries": 0,
        "tasks": {"file": str(folder / "tasks.jsonl")},
        "deadlines": {**given.get("deadlines", {}), "episode": seconds},
    }
    try:
        return RolloutConfig.model_validate(given)
    except ValueError as error:
        what = " ".join(str(error).split())[:200]
        raise UsageError(f"run {run.id}: its configuration cannot be used any more ({what})") from error


def _line(walk: Sequence[Node]) -> bytes:
    return msgspec.json.encode({"messages": [_message(node.message) for node in walk]}) + b"\n"


def _message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.thinking:
        body["reasoning_content"] = message.thinking
    return body


def _compare(stored: Sequence[Node], played: Sequence[Node], broke: str) -> Divergence | None:
    turn = 0
    for depth, node in enumerate(stored):
        seen = shown(played[depth].message) if depth < len(played) else f"(nothing{': ' + broke if broke else ''})"
        if seen != shown(node.message):
            what = "message" if depth < len(played) else "missing"
            return Divergence(what=what, turn=turn, depth=depth, stored=shown(node.message), seen=seen, node_id=node.id)
        turn += node.message.role == "assistant"
    if len(played) > len(stored):
        extra = shown(played[len(stored)].message)
        return Divergence(what="extra", turn=turn, depth=len(stored), stored="(nothing)", seen=extra)
    return None
