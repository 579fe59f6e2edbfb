"""The rollouts of a run: who has which place, and what of them stands in the lake.

    claim(rollout) ─▶ its trajectory stands in the lake ─▶ its session is let go of: the tree is read again if need be

What a run knows of each rollout it ever had is a few hundred bytes, so the roster goes when the run is closed: the lake
tells the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from silva.models.gateway.problem import Problem
from silva.models.gateway.session import Rollout, rollout_of
from silva.tree import Trajectory

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a run or rollout may be called."""
ROUTES = ("chat", "responses", "messages", "models", "v1")
"""What no rollout may be called: in a URL these say what is asked for."""


class Roster:
    """See the module. `trajectories`: those the lake has; `trees`: those it has and memory may not."""

    def __init__(self, stored: Iterable[Trajectory] = ()) -> None:
        self.trajectories: set[str] = set()
        self.trees: set[str] = set()
        self._names: dict[str, str] = {}
        for trajectory in stored:
            self.trajectories.add(trajectory.id)
            self.trees.add(trajectory.tree_id)
            self._names[trajectory.id] = rollout_of(trajectory).name

    def claim(self, rollout: Rollout) -> None:
        """Take in that a rollout has its name and its place.

        Raises:
            Problem: the name cannot be used, or another rollout has the place.
        """
        check_name(rollout.name)
        other = self._names.setdefault(rollout.trajectory_id, rollout.name)
        if other != rollout.name:
            what = f"rollout {other} has the same task, index and attempt"
            raise Problem("conflict", f"{what}: give {rollout.name} another index or attempt", "index")


def check_name(rollout: str) -> None:
    """Return where a rollout may be called so.

    Raises:
        Problem: it may not.
    """
    if not NAME.fullmatch(rollout) or rollout in ROUTES:
        what = f"letters, digits, '.', '_' and '-' only, and none of {', '.join(ROUTES)}"
        raise Problem("malformed", f"rollout name {rollout!r}: {what}", "rollout")


def unannounced(run: str, name: str) -> Rollout:
    """A rollout that nobody announced: a task of its own."""
    return Rollout(run_id=run, name=name, task_id=f"gateway/{name}")
