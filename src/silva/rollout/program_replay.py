"""A program's trajectory played again: the same program, the same task, and a model that says what it said before.

    trajectory ─▶ its walks, of which what was sampled is recorded turns ─▶ scripted model
               ─▶ the program, in a lake of its own ─▶ the same walks, all of them? the same score?

A program that is deterministic given its model's replies asks what it asked before, message for message. Where it asks
something else the recording has no answer: that is the divergence. What a client made of a reply is no turn: the model
says again what the policy said, and the client has to make the same of it again. Ids that a client draws for its own
messages and calls are not compared, for they say nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.lake import Lake
from silva.models.gateway.dialects.responses.marks import ITEM, mark_of
from silva.rollout.config import RolloutConfig
from silva.rollout.replay import Divergence, shown
from silva.rollout.run import run_rollout
from silva.tree import Author, Message, Node, Record, Run, Task, Trajectory, Tree
from silva.tree.copies import copy_of
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
        (folder / "turns.jsonl").write_bytes(_recorded(walks))
        script = {"model": trajectory.model or "recorded", "recorded": "turns.jsonl"}
        (folder / "script.yaml").write_bytes(msgspec.json.encode(script))
        result = await run_rollout(config)
        with Lake.open(config.lake, mode="read") as lake:
            played = result.trajectories[-1]
            tree = Tree(lake.nodes(tree_id=played.tree_id))
        leaves = dict.fromkeys([played.leaf_id, *played.attributes.get("leaves", ())])
        again = [tree.walk(leaf) for leaf in leaves if leaf is not None and leaf in tree]
    failure = played.outcome.failure
    divergence = _first(walks, again, failure.message if failure else "")
    if divergence is None and trajectory.outcome.score != played.outcome.score:
        divergence = _score(walks[0], trajectory.outcome.score, played.outcome.score)
    return ReplayedProgram(
        turns=played.turns,
        divergence=divergence,
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


def _recorded(walks: Sequence[Sequence[Node]]) -> bytes:
    """The walks as recorded conversations, each turn in one of them, in the order in which they were taken."""
    told: set[str] = set()
    lines: list[tuple[float, bytes]] = []
    for walk in walks:
        places = [place for place, node in enumerate(walk) if node.author is Author.POLICY and node.id not in told]
        told.update(walk[place].id for place in places)
        if places:
            line = {"messages": [_message(node.message) for node in walk], "sampled": places}
            lines.append((walk[places[0]].started, msgspec.json.encode(line) + b"\n"))
    return b"".join(line for _, line in sorted(lines, key=lambda each: each[0]))


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


def _first(stored: Sequence[Sequence[Node]], played: Sequence[Sequence[Node]], broke: str) -> Divergence | None:
    """The first difference between two sets of walks. Those that are the same are set aside, whichever ended last; each
    of the others is compared with what is left that is most like it; where there is one alone, with whatever came."""
    left, other = list(played), list[Sequence[Node]]()
    for walk in stored:
        same = next((each for each in left if _compare(walk, each, "") is None), None)
        if same is None:
            other.append(walk)
        else:
            left.remove(same)
    for walk in other:
        likest = max(left, key=lambda each: _shared(walk, each), default=())
        if not _shared(walk, likest) and len(stored) > 1:
            likest = ()
        return _compare(walk, likest, broke)
    for walk in left:
        said = shown(walk[-1].message)
        return Divergence(what="extra", turn=0, depth=len(walk) - 1, stored="(no such conversation)", seen=said)
    return None


def _shared(one: Sequence[Node], other: Sequence[Node]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if not _same(mine, theirs)), min(len(one), len(other)))


def _same(stored: Node, played: Node) -> bool:
    """Whether two nodes say the same, by the same author; the ids of calls are drawn anew by some."""
    if stored.author is not played.author or (copy_of(stored) and not copy_of(played)):
        return False
    if stored.message.role == "assistant":
        return shown(stored.message) == shown(played.message)
    return _without_id(stored.message) == _without_id(played.message)


def _without_id(message: Message) -> Message:
    """A message without the id of its own that a client of the Responses API draws for it, which says nothing."""
    mark = mark_of(message.extra)
    if "id" not in mark:
        return message
    rest = {name: value for name, value in mark.items() if name != "id"}
    return msgspec.structs.replace(message, extra={**(message.extra or {}), ITEM: rest})


def _score(walk: Sequence[Node], stored: float | None, seen: float | None) -> Divergence:
    turn = sum(node.message.role == "assistant" for node in walk)
    return Divergence(
        what="score",
        turn=turn,
        depth=len(walk) - 1,
        stored=f"score {stored}",
        seen=f"score {seen}",
        node_id=walk[-1].id,
    )


def _compare(stored: Sequence[Node], played: Sequence[Node], broke: str) -> Divergence | None:
    turn = 0
    for depth, node in enumerate(stored):
        if depth >= len(played) or not _same(node, played[depth]):
            seen = shown(played[depth].message) if depth < len(played) else f"(nothing{': ' + broke if broke else ''})"
            what = "message" if depth < len(played) else "missing"
            return Divergence(what=what, turn=turn, depth=depth, stored=shown(node.message), seen=seen, node_id=node.id)
        turn += node.message.role == "assistant"
    if len(played) > len(stored):
        extra = shown(played[len(stored)].message)
        return Divergence(what="extra", turn=turn, depth=len(stored), stored="(nothing)", seen=extra)
    return None
