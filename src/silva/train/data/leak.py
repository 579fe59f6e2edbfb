"""What two data sets have in common and must not: a task, a group of tasks, or the very same first question."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Literal

from silva.train.data.dataset import DataSet, Entry
from silva.tree import Record


class Leak(Record, frozen=True, kw_only=True):
    """One thing that stands in two sets. `name` is the task, the group, or the two tasks that ask the same."""

    kind: Literal["task", "group", "question"]
    name: str
    sets: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} is in {self.sets[0]} and in {self.sets[1]}"


def leaks(datasets: Mapping[str, DataSet]) -> list[Leak]:
    """Everything that two of the sets share: tasks by environment and id, groups, and first questions by digest. A task
    that is shared is named once, as such."""
    found: list[Leak] = []
    for one, other in combinations(datasets, 2):
        found += _between((one, datasets[one]), (other, datasets[other]))
    return found


def _between(one: tuple[str, DataSet], other: tuple[str, DataSet]) -> list[Leak]:
    sets = one[0], other[0]
    ours, theirs = one[1].entries, other[1].entries
    known = {entry.task for entry in theirs}
    tasks = sorted({entry.task for entry in ours} & known)
    found = [Leak(kind="task", name=task, sets=sets) for _, task in tasks]
    shared = set(tasks)
    known = {(entry.env, entry.group) for entry in theirs if entry.task not in shared}
    kept = [entry for entry in ours if entry.task not in shared and entry.group not in ("", entry.task_id)]
    in_both = sorted({(entry.env, entry.group) for entry in kept} & known)
    found += [Leak(kind="group", name=group, sets=sets) for _, group in in_both]
    asked: dict[str, Entry] = {}
    for entry in theirs:
        if entry.question and entry.task not in shared:
            asked.setdefault(entry.question, entry)
    told: set[str] = set()
    for entry in ours:
        twin = asked.get(entry.question)
        if twin is None or entry.question in told or entry.task in shared:
            continue
        told.add(entry.question)
        found.append(Leak(kind="question", name=f"of {entry.task_id} (as in {twin.task_id})", sets=sets))
    return found
