"""Tasks as runs own them: a run's own under an id, and what older versions kept, which is no run's.

run, id ─▶ its own? ─▶ no run's? ─▶ the task
"""

from __future__ import annotations

from silva.lake.columns import TASKS
from silva.lake.filters import Filter, field
from silva.lake.reader import Reader
from silva.tree import Task, Trajectory


def tasks(reader: Reader, run_id: str | None, env: str | None, where: Filter | None, limit: int | None) -> list[Task]:
    """Tasks that meet all conditions: of a run its own, each id once; else every run's."""
    if run_id is None:
        return reader.records(TASKS, where, limit, env=env)
    # What older versions kept is no run's: it stands for whoever has no task of that id of its own.
    condition = field("run_id").is_in([run_id, ""]) | field("run_id").is_null()
    found = reader.records(TASKS, condition if where is None else condition & where, None, env=env)
    own = {task.id: task for task in sorted(found, key=lambda task: task.run_id == run_id)}
    return list(own.values())[:limit]


def task(reader: Reader, trajectory: Trajectory) -> Task | None:
    """The task that a trajectory attempted, as its run had it; None where the lake does not hold it."""
    return next(iter(tasks(reader, trajectory.run_id, None, field("id") == trajectory.task_id, 1)), None)
