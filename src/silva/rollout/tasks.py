"""Choosing the tasks of a run: from the environments' splits, by id, or from a task file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from silva.errors import UsageError
from silva.rollout.config import TaskSelection
from silva.tree import Task, digest
from silva.tree.formats.errors import FormatError
from silva.tree.formats.tasks import read_tasks


class ListsTasks(Protocol):
    """A host pool, as far as this module needs one."""

    async def tasks(self, split: str = "test", limit: int | None = None, ids: list[str] | None = None) -> list[Task]:
        """The environment's tasks."""
        ...


async def choose_tasks(selection: TaskSelection, pools: Mapping[str, ListsTasks]) -> list[tuple[str, Task]]:
    """The tasks of a run, each with the environment (as the run names it) that it is for; environments interleaved, so
    that progress is fair from the first episode on. No two have one id.

    Raises:
        UsageError: no task is left, an id is unknown, or the task file is malformed (with line and field).
    """
    if selection.file is not None:
        return kept_apart(_limited(_from_file(selection.file, list(pools)), selection))
    lines: list[list[tuple[str, Task]]] = []
    for name, pool in pools.items():
        ids = [task_id for task_id in selection.ids if _belongs(task_id, name, pools)] if selection.ids else None
        tasks = await pool.tasks(split=selection.split, limit=selection.limit, ids=ids)
        if not tasks and not selection.ids:
            raise UsageError(f"environment {name} has no task in split {selection.split!r}: see silva envs show {name}")
        lines.append([(name, task) for task in tasks])
    unknown = set(selection.ids) - {task.id for line in lines for _, task in line}
    if unknown:
        raise UsageError(f"unknown task {min(unknown)}: see silva envs tasks {next(iter(pools))}")
    return kept_apart(_interleaved(lines))


def kept_apart(tasks: Iterable[tuple[str, Task]]) -> list[tuple[str, Task]]:
    """The tasks, no two with one id: trees and trajectories are named after them. The first keeps its id; another that
    is not the same task is named by its content besides, and its environment knows it by its own id (`Task.given`).
    What is asked for twice is one task."""
    known: dict[str, tuple[str, Task]] = {}
    for env, task in tasks:
        if known.get(task.id, (env, task)) != (env, task):
            task = task.renamed(f"{task.id}~{digest(env, task.content)[:8]}")
        known.setdefault(task.id, (env, task))
    return list(known.values())


def _belongs(task_id: str, env: str, pools: Mapping[str, ListsTasks]) -> bool:
    """Whether an environment may know this id: one alone judges for itself, of several the id's first part decides."""
    head = task_id.split("/", 1)[0].replace("-", "_")
    return len(pools) == 1 or env.replace("-", "_").startswith(head)


def _from_file(path: Path, envs: list[str]) -> list[tuple[str, Task]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"task file {path}: cannot be read ({error}); give a JSONL or YAML file of tasks") from error
    try:
        tasks = read_tasks(text, path.name)
    except FormatError as error:
        raise UsageError(str(error)) from error
    chosen: list[tuple[str, Task]] = []
    for task in tasks:
        env = task.env if task.env in envs else envs[0] if len(envs) == 1 and ":" in envs[0] else ""
        if not env:
            raise UsageError(
                f"task file {path}: task {task.id} is of environment {task.env}, which this run does not have "
                f"(--env {task.env})"
            )
        chosen.append((env, task))
    return chosen


def _limited(tasks: list[tuple[str, Task]], selection: TaskSelection) -> list[tuple[str, Task]]:
    if selection.ids:
        tasks = [(env, task) for env, task in tasks if task.id in set(selection.ids)]
    tasks = tasks[: selection.limit]
    if not tasks:
        raise UsageError(f"task file {selection.file}: no task is left to run")
    return tasks


def _interleaved(lines: list[list[tuple[str, Task]]]) -> list[tuple[str, Task]]:
    longest = max((len(line) for line in lines), default=0)
    return [line[place] for place in range(longest) for line in lines if place < len(line)]
