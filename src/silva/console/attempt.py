"""An attempt as lists show it: one light row, from its first turn on, whether it has ended or not."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.console.marking import bare
from silva.rollout.guided_nodes import takes_turn
from silva.tree import Author, Node, Trajectory, trajectory_at

RUNNING = "running"
"""The status of an attempt that has not ended."""
CUT = "cut off"
"""The status of one that never will, unless its run is resumed."""


class Attempt(msgspec.Struct, kw_only=True):
    """One attempt at a task. `slot` is its place and try, `turns` the policy's, `moved` when anything last happened
    (Unix seconds). Of an attempt under way, `leaf` is its last node and `last` what was called or said in it."""

    id: str
    run: str
    tree: str
    slot: str
    task: str = ""
    env: str = ""
    status: str = RUNNING
    score: float | None = None
    success: bool | None = None
    safety: float | None = None
    failure: str = ""
    boundary: str = ""
    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    started: float = 0.0
    moved: float = 0.0
    leaf: str = ""
    last: str = ""
    superseded: bool = False
    metrics: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    agent: str = ""
    model: str = ""
    version: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Run, tree and slot: what a node says of the attempt that it belongs to."""
        return self.run, self.tree, self.slot


def of(trajectory: Trajectory) -> Attempt:
    """The row of an attempt that has ended."""
    outcome, usage = trajectory.outcome, trajectory.usage
    failure = outcome.failure
    return Attempt(
        id=trajectory.id,
        run=trajectory.run_id,
        tree=trajectory.tree_id,
        slot=trajectory.slot,
        task=trajectory.task_id,
        env=trajectory.env,
        status=str(outcome.status),
        score=outcome.score,
        success=outcome.success,
        safety=outcome.safety,
        failure="" if failure is None else f"{failure.code}: {failure.message}"[:200],
        boundary="" if failure is None else str(failure.boundary),
        turns=trajectory.turns,
        tokens=usage.prompt_tokens + usage.completion_tokens,
        usd=usage.usd,
        started=trajectory.started,
        moved=trajectory.finished,
        leaf=trajectory.leaf_id or "",
        superseded=trajectory.superseded,
        metrics=dict(outcome.metrics),
        agent=trajectory.agent,
        model=trajectory.model,
        version=trajectory.policy_version,
    )


def begun(node: Node, task: str, env: str) -> Attempt:
    """The row of an attempt whose first turn this is."""
    id = (task and trajectory_at(node.run_id, task, node.slot)) or f"{node.tree_id}:{node.slot}"
    made = Attempt(id=id, run=node.run_id, tree=node.tree_id, slot=node.slot, task=task, env=env)
    made.started = node.started
    return made


def grow(attempt: Attempt, node: Node) -> None:
    """Take in one more node of an attempt under way."""
    if node.author is not Author.SUMMARISER:
        attempt.leaf = node.id
    attempt.moved = max(attempt.moved, node.started)
    attempt.tokens += node.usage.prompt_tokens + node.usage.completion_tokens
    attempt.usd += node.usage.usd
    if takes_turn(node):
        attempt.turns += 1
        attempt.last = brief(node)
    if node.author is Author.POLICY:
        attempt.model, attempt.version = node.model, node.policy_version


def brief(node: Node, most: int = 160) -> str:
    """A message on one line: its text, then its calls."""
    message = node.message
    calls = " ".join(f"→ {call.name}({call.arguments[:most]})" for call in message.tool_calls)
    text = " ".join(f"{bare(message.text[: 4 * most])} {calls}".split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def row(attempt: Attempt) -> dict[str, Any]:
    """As the browser gets it."""
    return msgspec.to_builtins(attempt)
