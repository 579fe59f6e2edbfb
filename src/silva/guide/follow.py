"""A run as it grows, read from the lake by somebody who is not the run: each turn once, soon after it was kept.

    lake ─▶ RunFollower: what was kept since the last look ─▶ Shown, in the order they were made

What the environment answered reaches the lake with the turn behind it, so it is seen then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from silva.guide.word import EVERYONE
from silva.lake import Lake
from silva.lake.run_follower import RunFollower
from silva.tree import Author, Node, Trajectory, trajectory_at
from silva.tree.actions import decoded, visible
from silva.tree.role import attempt_of


@dataclass(frozen=True, slots=True)
class Shown:
    """One node with where it stands: its task, its trajectory ("" where attempts share it), its turn from 1 (0: the
    opening)."""

    node: Node
    task_id: str
    trajectory_id: str
    turn: int


class Follow:
    """Follows one run.

    Args:
        lake: open to read.
        run_id: the run.
        to: a task or a trajectory to follow alone, or "*".
    """

    def __init__(self, lake: Lake, run_id: str, to: str = EVERYONE) -> None:
        self._run_id, self.to = run_id, to
        self._records = RunFollower(lake, run_id)
        self._turns: dict[str, int] = {}
        self._ended: list[Trajectory] = []
        self._dead: set[str] = set()
        self.live: dict[str, str] = {}

    def read(self) -> list[Shown]:
        """The nodes that were kept since the last call; all at first.

        Raises:
            StoreError: the lake cannot be read.
        """
        fresh = self._records.fresh()
        self._ended += fresh.trajectories
        self._dead.update(each.id for each in fresh.trajectories)
        shown = [self._placed(node) for node in fresh.nodes]
        for each in fresh.trajectories:
            self.live.pop(each.id, None)
        shown.sort(key=lambda each: (each.node.started, each.node.depth))
        return [each for each in shown if self.to in (EVERYONE, each.task_id, each.trajectory_id)]

    def ended(self) -> list[Trajectory]:
        """Trajectories that had ended by the last `read`, each once."""
        found, self._ended = self._ended, []
        return [each for each in found if self.to in (EVERYONE, each.task_id, each.id)]

    @property
    def over(self) -> bool:
        """Whether the run had ended by the last `read`."""
        run = self._records.run
        return run is not None and bool(run.finished)

    def _placed(self, node: Node) -> Shown:
        above = self._turns.get(node.parent_id or "", 0)
        acts = node.message.role == "assistant" and node.author is not Author.SUMMARISER
        self._turns[node.id] = turn = above + acts
        task = self._records.tasks.get(node.tree_id, "")
        name = trajectory_at(self._run_id, task, attempt_of(node.slot))
        if name and name not in self._dead:
            self.live[name] = task
        return Shown(node, task, name, turn)


def in_words(shown: Shown, width: int = 400) -> str:
    """A node on one line, safe for a terminal."""
    node = shown.node
    calls = [f"{call.name}({decoded(call)})" for call in node.message.tool_calls]
    text = plain(" ".join(filter(None, (node.message.text, *calls))))
    text = text if len(text) <= width else f"{text[: width - 1]}…"
    who = node.author.value
    if who == "person" and node.message.role == "assistant":
        who = f"{node.attributes.get('by', 'a person')} takes"
    place = f"{shown.task_id.split('/', 1)[-1]} {node.slot}".strip()
    return f"{place} turn {shown.turn} {plain(who)}: {text}" if shown.turn else f"{place} {plain(who)}: {text}"


def plain(text: str) -> str:
    """On one line (an end of a line is `↵`), without what a terminal would take for orders; what turns or hides text is
    shown by its number."""
    parts = [" ".join(re.split(r"[ \t]+", part.strip(" \t"))) for part in text.strip().split("\n")]
    return visible(" ↵ ".join(parts))


def one_of(live: Iterable[str]) -> str | None:
    """The only one, if it is the only one."""
    found: Sequence[str] = list(live)[:2]
    return found[0] if len(found) == 1 else None
