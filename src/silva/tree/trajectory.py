"""A trajectory: one walk from the root to a leaf, with how it ended. A group: all of one task in one run."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from silva.tree.message import Json, Record
from silva.tree.node import NO_USAGE, Usage, digest
from silva.tree.outcome import Outcome, Status

SHARED_TURNS = "shared_turns"
"""Attribute of a trajectory: how many turns of its walk another one holds, which counts them."""


class Trajectory(Record, frozen=True, kw_only=True, tag_field="kind", tag="trajectory"):
    """The record written once an attempt has ended; the walk itself is the nodes from `leaf_id` to the root.

    `index` is its place in the group (0..K-1); `attempt` counts retries after infrastructure failures. Only the last
    attempt of an index belongs to its group's statistics; earlier ones stay as data. `leaf_id` is None when the attempt
    broke before the first message. `started` and `finished` are Unix seconds.
    """

    id: str
    run_id: str
    tree_id: str
    task_id: str
    env: str
    index: int
    attempt: int
    seed: int
    leaf_id: str | None
    outcome: Outcome
    agent: str = ""
    model: str = ""
    policy_version: str = ""
    turns: int = 0
    reward: float = 0.0
    usage: Usage = NO_USAGE
    started: float = 0.0
    finished: float = 0.0
    superseded: bool = False
    attributes: Json = msgspec.field(default_factory=dict[str, Any])

    @property
    def seconds(self) -> float:
        """How long it took; 0 where it does not say when it began or ended, or a clock that was set back says less."""
        return max(0.0, self.finished - self.started) if self.started and self.finished else 0.0

    @property
    def slot(self) -> str:
        """The slot its sampled nodes carry."""
        return slot(self.index, self.attempt)

    @property
    def own_turns(self) -> int:
        """Its turns without those that another trajectory of its tree holds already: what a session that was imported
        went on from, or what stands before a branch. As `usage` does, they count each turn once."""
        shared = self.attributes.get(SHARED_TURNS)
        branch = self.attributes.get("branch")
        new = cast("Json", branch).get("turns") if isinstance(branch, dict) else None
        if isinstance(new, int):
            return min(self.turns, new)
        return max(0, self.turns - shared) if isinstance(shared, int) else self.turns


class Group(Record, frozen=True, kw_only=True):
    """The counted trajectories of one task in one run, ordered by index."""

    run_id: str
    task_id: str
    trajectories: tuple[Trajectory, ...]

    @property
    def scores(self) -> tuple[float | None, ...]:
        """Scores by index."""
        return tuple(t.outcome.score for t in self.trajectories)

    @property
    def complete(self) -> bool:
        """Whether every member ran to a scored end."""
        return all(t.outcome.status is not Status.FAILED for t in self.trajectories)


def slot(index: int, attempt: int) -> str:
    """Name of one attempt at one place of a group."""
    return f"{index}.{attempt}"


def tree_id(run_id: str, task_id: str) -> str:
    """Id of the tree that a task grows in a run."""
    return digest("tree", run_id, task_id)


def trajectory_id(run_id: str, task_id: str, index: int, attempt: int) -> str:
    """Id of one attempt; the same in a resumed run."""
    return digest("trajectory", run_id, task_id, slot(index, attempt))


def trajectory_at(run_id: str, task_id: str, name: str) -> str:
    """Id of the attempt that a slot names; "" where it names none."""
    index, _, attempt = name.partition(".")
    named = index.isdigit() and attempt.isdigit()
    return trajectory_id(run_id, task_id, int(index), int(attempt)) if named else ""


def groups(trajectories: list[Trajectory] | tuple[Trajectory, ...]) -> list[Group]:
    """Gather trajectories into groups, keeping the last attempt of each index. Ordered by first appearance."""
    latest: dict[tuple[str, str], dict[int, Trajectory]] = {}
    for trajectory in trajectories:
        members = latest.setdefault((trajectory.run_id, trajectory.task_id), {})
        known = members.get(trajectory.index)
        if known is None or trajectory.attempt >= known.attempt:
            members[trajectory.index] = trajectory
    return [
        Group(run_id=run, task_id=task, trajectories=tuple(members[i] for i in sorted(members)))
        for (run, task), members in latest.items()
    ]
