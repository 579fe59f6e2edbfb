"""Tasks that a loop made and that wait for a person before anything is learnt on them: who they are, and the decision.

tasks that say how they came about ─▶ waiting ─▶ the inbox ─▶ approve or refuse ─▶ silva.loops.roles.admission
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import msgspec

from silva.console.calls import calls
from silva.console.view import MOST_TEXT
from silva.errors import SilvaError, UsageError
from silva.lake import Lake, field
from silva.loops.kernel.shown import text
from silva.loops.roles.admission import decide
from silva.loops.roles.born import Born, born
from silva.tree import Task

MOST = 200
"""Tasks shown at a time."""
MOST_ACTIONS = 60
"""Actions of a solution that are shown."""
SECONDS = 5.0
"""How old a count in the head of a page may be."""


class Admit(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A person's decision on a task of a run."""

    run: str
    task: str
    approved: bool
    why: str = ""


class Admission:
    """The tasks of a lake that wait. Safe to use from several threads.

    Args:
        lake: open to read.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mutex = threading.Lock()
        self._counted = (0.0, 0)

    def waiting(self) -> dict[str, Any]:
        """`total`, and the first `MOST` in `tasks`: what each asks, its solution, and all that is said of how it came
        about.

        Raises:
            StoreError: the lake cannot be read.
        """
        found = self._waiting()
        self._count(len(found))
        return {"total": len(found), "tasks": [_shown(*each) for each in found[:MOST]]}

    def count(self) -> int:
        """How many wait, at most some seconds ago; 0 where that cannot be read."""
        with self._mutex:
            at, known = self._counted
        if time.monotonic() - at < SECONDS:
            return known
        try:
            return self._count(len(self._waiting()))
        except SilvaError:
            return self._count(0)  # the page itself says what is wrong with the lake

    def decide(self, order: Admit, by: str) -> dict[str, Any]:
        """Let a task be learnt on, or not.

        Raises:
            UsageError: the run has no such task, or it does not wait.
            StoreError: another process writes the lake.
        """
        if len(order.why) > 4_000:
            raise UsageError("a reason may hold 4,000 characters")

        async def done() -> list[Task]:
            async with Lake.open(self._lake.location) as writing:
                return await decide(writing, order.run, [order.task], by, order.approved, order.why)

        changed = asyncio.run(done())
        with self._mutex:
            self._counted = (0.0, 0)
        return {"tasks": [each.id for each in changed]}

    def _waiting(self) -> list[tuple[Task, Born]]:
        runs = sorted({task.run_id for task in self._lake.tasks(where=~field("born").is_null())})
        return [each for run in runs for each in born(self._lake, run) if each[1].verdict == "waiting"]

    def _count(self, found: int) -> int:
        with self._mutex:
            self._counted = (time.monotonic(), found)
        return found


def _shown(task: Task, said: Born) -> dict[str, Any]:
    how: dict[str, Any] = {
        "signal": said.source.signal,
        "came of": said.source.trajectory,
        "in the place of": said.parent,
        "score": said.score,
        "steps": said.steps,
        "likeness to held-out tasks": said.similarity,
        "nearest of them": said.nearest,
        "round": said.round or None,
    }
    acted = [f"{each.role} {each.by}{f' ({each.model})' if each.model else ''}" for each in said.acted]
    return {
        "run": task.run_id,
        "task": task.id,
        "env": task.env,
        "asks": text(task.instruction or said.goal.words),
        "goal": text(said.goal.words),
        "data": text(said.goal.data),
        "how": {name: value for name, value in how.items() if value not in (None, "")},
        "acted": acted,
        "safety": [text(each) for each in said.safety],
        "actions": [{"text": each.text[:MOST_TEXT], "calls": calls(each)} for each in said.solution[:MOST_ACTIONS]],
        "more": max(0, len(said.solution) - MOST_ACTIONS),
    }
