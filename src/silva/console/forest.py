"""The forest: every run of a lake and every attempt, one light row each, kept up to date as records come.

    Run, Task, Trajectory, Node ─▶ Forest.take ─▶ Change (which runs and attempts moved, which nodes are new)

Pure: it reads nothing and knows no clock. A record taken twice changes nothing, so that what is in the tables and what
still stands in the journal may overlap. Text of turns is not kept here (`trees`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from silva.console.attempt import CUT, RUNNING, Attempt, begun, grow, of
from silva.lake.frames import Entry
from silva.tree import Node, Run, Supervision, Task, Trajectory, tree_id
from silva.tree.role import attempt_of

Key = tuple[str, str, str]


@dataclass
class Change:
    """What a look at the journal brought."""

    runs: set[str] = field(default_factory=set)
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    supervisions: list[Supervision] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.attempts or self.nodes or self.supervisions)


class Forest:
    """Runs by name, attempts by run, tree and slot; `epoch` grows when the attempts of a run change."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.tasks: dict[str, Task] = {}
        self._owned: dict[tuple[str, str], Task] = {}
        self.attempts: dict[Key, Attempt] = {}
        self.by_run: dict[str, dict[Key, Attempt]] = {}
        self.by_id: dict[str, Attempt] = {}
        self.epoch = 0
        self._seen: dict[Key, set[str]] = {}
        self._tree_tasks: dict[str, str] = {}
        self._hashed: dict[str, int] = {}

    def take(self, entries: Iterable[Entry]) -> Change:
        """Take records in, in the order they were written."""
        change = Change()
        for each in entries:
            if isinstance(each, Node):
                self._node(each, change)
            elif isinstance(each, Trajectory):
                self._ended(each, change)
            elif isinstance(each, Task):
                self.tasks[each.id] = self._owned[each.run_id, each.id] = each
            elif isinstance(each, Run):
                self._run(each, change)
            elif isinstance(each, Supervision):
                change.supervisions.append(each)
        if change:
            self.epoch += 1
        return change

    def task(self, run: str, id: str) -> Task | None:
        """A task as the run has it."""
        return self._owned.get((run, id)) or self._owned.get(("", id))

    def task_of(self, run: str, tree: str) -> str:
        """The task that a tree grows from; "" where no record tells yet."""
        if tree not in self._tree_tasks and self._hashed.get(run) != len(self.tasks):
            self._hashed[run] = len(self.tasks)
            for task in self.tasks:
                self._tree_tasks.setdefault(tree_id(run, task), task)
        return self._tree_tasks.get(tree, "")

    def _run(self, run: Run, change: Change) -> None:
        self.runs[run.id] = run
        change.runs.add(run.id)
        before, after = (RUNNING, CUT) if run.finished else (CUT, RUNNING)
        for key, attempt in self.by_run.get(run.id, {}).items():
            if attempt.status == before:
                attempt.status = after
                change.attempts[key] = attempt

    def _node(self, node: Node, change: Change) -> None:
        change.nodes.append(node)
        if not node.slot or attempt_of(node.slot) != node.slot:  # shared, or of an agent that the attempt is not about
            return
        key = (node.run_id, node.tree_id, node.slot)
        known = self.attempts.get(key)
        if known is None:
            task = self.task_of(node.run_id, node.tree_id)
            own = self.task(node.run_id, task)
            env = own.env if own is not None else ""
            known = begun(node, task, env)
            run = self.runs.get(node.run_id)
            known.status = CUT if run is not None and run.finished else RUNNING
            self._put(key, known)
        if known.status not in (RUNNING, CUT):
            return
        seen = self._seen.setdefault(key, set())
        if node.id in seen:
            return
        seen.add(node.id)
        grow(known, node)
        change.attempts[key] = known
        change.runs.add(node.run_id)

    def _ended(self, trajectory: Trajectory, change: Change) -> None:
        self._tree_tasks[trajectory.tree_id] = trajectory.task_id
        key = (trajectory.run_id, trajectory.tree_id, trajectory.slot)
        made = of(trajectory)
        known = self.attempts.get(key)
        if known is not None:
            made.last = known.last
            self.by_id.pop(known.id, None)
        self._put(key, made)
        self._seen.pop(key, None)
        change.attempts[key] = made
        change.runs.add(trajectory.run_id)

    def _put(self, key: Key, attempt: Attempt) -> None:
        self.attempts[key] = attempt
        self.by_run.setdefault(key[0], {})[key] = attempt
        self.by_id[attempt.id] = attempt
