"""Follows one run as another process grows it: each node and each trajectory once, soon after it is durable.

    first look   journal, then tables ─▶ all there is        later   Follower ─▶ what the journal holds beyond that
    missed       a segment was compacted away unread ─▶ all there is, without what was given before

A look at a run that has not moved costs one listing of a folder, however long the run is. Where the journal is on
another machine (a lake in an object store), every look reads the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from silva.lake.follower import Follower
from silva.lake.frames import Entry
from silva.lake.lake import Lake
from silva.lake.place import place
from silva.tree import Node, Run, Task, Trajectory, tree_id


@dataclass
class Fresh:
    """What is new: nodes, parents before children; and trajectories that ended."""

    nodes: list[Node] = field(default_factory=list[Node])
    trajectories: list[Trajectory] = field(default_factory=list[Trajectory])


class RunFollower:
    """Follows one run. Not safe for several threads.

    Args:
        lake: open to read.
        run_id: the run; it need not have begun.

    `run` is its record as it was last read, `tasks` the ids of its tasks by the ids their trees have.
    """

    def __init__(self, lake: Lake, run_id: str) -> None:
        self._lake, self._run_id = lake, run_id
        self._journal = place(lake.location).journal
        self._follower: Follower | None = None
        self._known: set[str] = set()
        self.run: Run | None = None
        self.tasks: dict[str, str] = {}

    def fresh(self) -> Fresh:
        """What was kept since the last call; all at first.

        Raises:
            StoreError: the lake cannot be read.
        """
        found = Fresh()
        if self._follower is not None:
            self._take(self._follower.fresh(), found)
        if self._follower is None or self._follower.missed or self._moved_unseen(self._follower):
            self._load(found)
        found.nodes.sort(key=lambda node: node.depth)
        return found

    def _moved_unseen(self, follower: Follower) -> bool:
        """Whether the tables must be looked at: the journal is not on this machine, or it holds nothing (nobody
        writes), and somebody who wrote between two looks has changed the run."""
        if not self._journal.is_dir():
            return True
        return follower.empty and self._lake.run(self._run_id) != self.run

    def _load(self, found: Fresh) -> None:
        """Read all: the journal first, then the tables, so that nothing falls between them."""
        if self._follower is not None:
            self._follower.close()
        self._follower = Follower(self._journal)
        entries = self._follower.fresh()
        self._take(self._lake.tasks(run_id=self._run_id), found)
        self._take(self._lake.nodes(run_id=self._run_id), found)
        self._take(self._lake.trajectories(run_id=self._run_id), found)
        self._take(entries, found)
        self.run = self._lake.run(self._run_id)

    def _take(self, entries: Iterable[Entry], found: Fresh) -> None:
        for each in entries:
            if isinstance(each, Task):
                if each.run_id in ("", self._run_id):
                    self.tasks[tree_id(self._run_id, each.id)] = each.id
            elif isinstance(each, Run):
                self.run = each if each.id == self._run_id else self.run
            elif isinstance(each, Node | Trajectory) and each.run_id == self._run_id and each.id not in self._known:
                self._known.add(each.id)
                if isinstance(each, Node):
                    found.nodes.append(each)
                else:
                    found.trajectories.append(each)
