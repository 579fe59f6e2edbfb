"""A rollout: which attempt at which task a client's calls belong to."""

from __future__ import annotations

from silva.tree import Record, Trajectory, slot, trajectory_id, tree_id


class Rollout(Record, frozen=True, kw_only=True):
    """Which rollout a session is: its run and name, and its place among the rollouts of its task. `most_turns` and
    `most_tokens` bound its calls and what they use, for as long as this gateway knows the rollout (`Allowance`)."""

    run_id: str
    name: str
    task_id: str
    env: str = "gateway"
    index: int = 0
    attempt: int = 0
    seed: int = 0
    agent: str = ""
    most_turns: int | None = None
    most_tokens: int | None = None

    @property
    def slot(self) -> str:
        """What its sampled nodes carry."""
        return slot(self.index, self.attempt)

    @property
    def tree_id(self) -> str:
        """The tree its task grows in this run."""
        return tree_id(self.run_id, self.task_id)

    @property
    def trajectory_id(self) -> str:
        """The id its trajectory will have."""
        return trajectory_id(self.run_id, self.task_id, self.index, self.attempt)


def rollout_of(trajectory: Trajectory) -> Rollout:
    """The rollout that a trajectory written by a gateway belongs to."""
    same = ("run_id", "task_id", "env", "index", "attempt", "seed", "agent")
    name = str(trajectory.attributes.get("rollout", "main"))
    return Rollout(name=name, **{field: getattr(trajectory, field) for field in same})
