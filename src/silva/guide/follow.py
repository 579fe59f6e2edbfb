"""A run as it grows, read from the lake by somebody who is not the run: each turn once, soon after it was kept.

    lake ─▶ nodes since the last look (a window of time, ids seen before left out) ─▶ Shown, in the order they were made

What the environment answered reaches the lake with the turn behind it, so it is seen then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from silva.guide.word import EVERYONE
from silva.lake import Lake, field
from silva.tree import Author, Node, Trajectory, trajectory_id, tree_id

WINDOW = 900.0
"""Seconds a node may be kept later than it was made."""


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
        self._lake, self._run_id, self.to = lake, run_id, to
        self._tasks: dict[str, str] = {}
        self._turns: dict[str, int] = {}
        self._ended: set[str] = set()
        self._since = 0.0
        self.live: dict[str, str] = {}

    def read(self) -> list[Shown]:
        """The nodes that were kept since the last call; all at first.

        Raises:
            StoreError: the lake cannot be read.
        """
        where = field("started") >= self._since if self._since else None
        found = self._lake.nodes(run_id=self._run_id, where=where)
        fresh = sorted((node for node in found if node.id not in self._turns), key=lambda each: each.depth)
        if any(node.tree_id not in self._tasks for node in fresh):
            self._tasks = {tree_id(self._run_id, task.id): task.id for task in self._lake.tasks()}
        shown = [self._placed(node) for node in fresh]
        self._since = max([self._since, *(node.started - WINDOW for node in fresh)])
        shown.sort(key=lambda each: (each.node.started, each.node.depth))
        return [each for each in shown if self.to in (EVERYONE, each.task_id, each.trajectory_id)]

    def ended(self) -> list[Trajectory]:
        """Trajectories that ended since the last call."""
        found = [each for each in self._lake.trajectories(run_id=self._run_id) if each.id not in self._ended]
        for each in found:
            self._ended.add(each.id)
            self.live.pop(each.id, None)
        return [each for each in found if self.to in (EVERYONE, each.task_id, each.id)]

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        run = self._lake.run(self._run_id)
        return run is not None and bool(run.finished)

    def _placed(self, node: Node) -> Shown:
        above = self._turns.get(node.parent_id or "", 0)
        acts = node.message.role == "assistant" and node.author is not Author.SUMMARISER
        self._turns[node.id] = turn = above + acts
        task = self._tasks.get(node.tree_id, "")
        name = ""
        index, _, attempt = node.slot.partition(".")
        if index.isdigit() and attempt.isdigit():
            name = trajectory_id(self._run_id, task, int(index), int(attempt))
            if name not in self._ended:
                self.live[name] = task
        return Shown(node, task, name, turn)


def in_words(shown: Shown, width: int = 400) -> str:
    """A node on one line, safe for a terminal."""
    node = shown.node
    calls = [f"{call.name}({call.arguments})" for call in node.message.tool_calls]
    text = plain(" ".join(filter(None, (node.message.text, *calls))))
    text = text if len(text) <= width else f"{text[: width - 1]}…"
    who = node.author.value
    if who == "person" and node.message.role == "assistant":
        who = f"{node.attributes.get('by', 'a person')} takes"
    place = f"{shown.task_id.split('/', 1)[-1]} {node.slot}".strip()
    return f"{place} turn {shown.turn} {plain(who)}: {text}" if shown.turn else f"{place} {plain(who)}: {text}"


def plain(text: str) -> str:
    """On one line, without what a terminal would take for orders."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def one_of(live: Iterable[str]) -> str | None:
    """The only one, if it is the only one."""
    found: Sequence[str] = list(live)[:2]
    return found[0] if len(found) == 1 else None
