"""What two data sets, or the samples trained on and those measured, have in common and must not: a task, a group of
tasks, or the very same first question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

from silva.train.data.dataset import DataSet, Entry
from silva.train.sample import Sample
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


def leaks_of_samples(trained: Sequence[Sample], measured: Sequence[Sample], sets: tuple[str, str]) -> list[Leak]:
    """What samples share: tasks by environment and id where they carry one, and first questions: the ids before what
    was drawn first. A task that is shared is named once, as such.

    Args:
        trained: those that are trained on.
        measured: those that are not.
        sets: what a message calls the two.
    """
    known = {_task(sample) for sample in measured if sample.task_id}
    shared = {_task(sample) for sample in trained} & known
    found = [Leak(kind="task", name=task, sets=sets) for _, task in sorted(shared)]
    asked: dict[bytes, Sample] = {}
    for sample in measured:
        if _task(sample) not in shared:
            asked.setdefault(_question(sample), sample)
    told = {b""}
    for sample in trained:
        question = _question(sample)
        twin = asked.get(question)
        if twin is None or question in told or _task(sample) in shared:
            continue
        told.add(question)
        one, other = (each.task_id or "a sample without a task" for each in (sample, twin))
        found.append(Leak(kind="question", name=f"of {one} (as in {other})", sets=sets))
    return found


def _task(sample: Sample) -> tuple[str, str]:
    return sample.env, sample.task_id


def _question(sample: Sample) -> bytes:
    """The ids before the first that was drawn or carries loss; none where the sample is the end of a longer one."""
    answer = sample.drawn | sample.mask
    begin = int(answer.argmax()) if answer.any() else len(sample)
    return b"" if sample.segment else sample.ids[:begin].tobytes()


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
