"""From runs of a lake to entries: each trajectory that counts, with what keeps it together with others.

    trajectories ─▶ the last attempt of each, ended and scored ─┐
    nodes of users ─▶ the first question of each tree ──────────┼─▶ entries, by environment, task, run and place
    tasks ─▶ key ───────────────────────────────────────────────┘

A key names what near-duplicates have in common: `task` (nothing but themselves), `question` (the first words of a
user), `tag` (the task's first tag), `data.FIELD` (a field of the task), `id:REGEX` (what its first group finds in the
task's id).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import msgspec

from silva.errors import UsageError
from silva.lake import Lake
from silva.lake.filters import Filter, field
from silva.train.data.dataset import Entry
from silva.tree import Status, Task, Trajectory, digest, groups

KEYS = "task, question, tag, data.FIELD or id:REGEX"

Key = Callable[[Entry, Task | None], str]


def key_of(text: str) -> Key:
    """The key that a text names.

    Raises:
        UsageError: it names none.
    """
    if text == "task":
        return lambda entry, task: entry.task_id
    if text == "question":
        return lambda entry, task: entry.question or entry.task_id
    if text == "tag":
        return lambda entry, task: _present(entry, text, task.tags[0] if task and task.tags else None)
    if text.startswith("data.") and text != "data.":
        name = text.removeprefix("data.")
        return lambda entry, task: _present(entry, text, task.data.get(name) if task else None)
    if text.startswith("id:"):
        try:
            pattern = re.compile(text.removeprefix("id:"))
        except re.error as fault:
            raise UsageError(f"key {text!r}: it is no regular expression ({fault})") from fault
        if not pattern.groups:
            raise UsageError(f"key {text!r}: put what near-duplicates have in common into a group: id:GoTo(.*)/")

        def found(entry: Entry, task: Task | None) -> str:
            hit = pattern.search(entry.task_id)
            return _present(entry, text, hit[1] if hit else None)

        return found
    raise UsageError(f"key {text!r} is not known; possible are {KEYS}")


def read_entries(
    lake: Lake, runs: Sequence[str], *, key: str = "task", where: Filter | None = None, success: bool = False
) -> list[Entry]:
    """The entries of runs.

    Args:
        lake: open.
        runs: which; none takes all.
        key: what is kept together, see the module.
        where: a condition on trajectories.
        success: leave out those the environment did not call a success.

    Raises:
        UsageError: a run is not there, nothing is left, or the key is not known or names nothing on a task.
        StoreError: the lake is damaged.
    """
    chosen, name = key_of(key), lake.location
    known = [run.id for run in lake.runs()]
    if missing := next((run for run in runs if run not in known), None):
        raise UsageError(f"run {missing} is not in lake {name}; see silva trees list")
    entries: list[Entry] = []
    for run in runs or known:
        tasks = {task.id: task for task in lake.tasks(run_id=run)}
        questions = _questions(lake, run)
        for trajectory in _counted(lake.trajectories(run_id=run, where=where)):
            if success and trajectory.outcome.success is not True:
                continue
            entry = Entry(
                lake=name,
                run_id=run,
                env=trajectory.env,
                task_id=trajectory.task_id,
                trajectory_id=trajectory.id,
                question=questions.get(trajectory.tree_id, ""),
                score=trajectory.outcome.score,
                success=trajectory.outcome.success,
                turns=trajectory.turns,
            )
            entries.append(_grouped(entry, chosen, tasks.get(trajectory.task_id)))
    if not entries:
        raise UsageError(
            f"lake {name}: no trajectory is left of {', '.join(runs) or 'any run'}; look with silva trees list"
        )
    return sorted(entries, key=lambda e: (e.env, e.task_id, e.run_id, e.trajectory_id))


def question_of(text: str) -> str:
    """The digest by which two first questions are told to be the same, letter by letter."""
    return digest("question", text)


def counts(trajectory: Trajectory) -> bool:
    """Whether an attempt may stand in a data set: it ended, and no later one took its place."""
    ended = trajectory.leaf_id and trajectory.outcome.status is not Status.FAILED
    return bool(ended) and not trajectory.superseded


def _grouped(entry: Entry, key: Key, task: Task | None) -> Entry:
    return msgspec.structs.replace(entry, group=key(entry, task))


def _present(entry: Entry, key: str, value: object) -> str:
    if value is None:
        raise UsageError(f"key {key}: task {entry.task_id} has nothing of that name; choose another key")
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _counted(trajectories: list[Trajectory]) -> list[Trajectory]:
    last = [member for group in groups(trajectories) for member in group.trajectories]
    return [each for each in last if counts(each)]


def _questions(lake: Lake, run: str) -> dict[str, str]:
    """The first thing a user said in each tree of a run."""
    first: dict[str, tuple[int, str, str]] = {}
    for node in lake.nodes(run_id=run, where=field("role") == "user"):
        place = (node.depth, node.id, question_of(node.message.text))
        if node.tree_id not in first or place < first[node.tree_id]:
            first[node.tree_id] = place
    return {tree: question for tree, (_, _, question) in first.items()}
