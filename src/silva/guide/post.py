"""Saying something to a run from outside it: checked against what the lake and the run's events know, then durable.

    kind, to, … ─▶ is the run there, does it go on, does it hear? ─▶ whom, which action? ─▶ Word ─▶ Mailbox

A console, a terminal and a web API all say what people say through here, so that what is refused, and how, is the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from silva.errors import UsageError
from silva.guide.event import Events, Waiting, waiting_of
from silva.guide.mailbox import Mailbox
from silva.guide.mailroom import folder_of
from silva.guide.word import EVERYONE, Word, word
from silva.lake import Lake, field
from silva.tree import Run, trajectory_id

Where: TypeAlias = Lake | str | Path
"""A lake that is open, or where it is."""


class NotThereError(UsageError):
    """The lake has no such run, or not yet."""


_DECISIONS = ("approve", "reject", "edit")
_MOST_PLACES = 100_000


def post(
    lake: Where,
    run_id: str,
    kind: str,
    by: str,
    *,
    to: str = EVERYONE,
    text: str = "",
    why: str = "",
    turn: int = 0,
    pattern: str = "",
    action: str = "",
    node: str = "",
    at: float | None = None,
    id: str = "",
) -> list[Word]:
    """Say something to a run; it is on disk when this returns.

    Args:
        lake: the run's.
        run_id: its name.
        kind: see `silva.guide.word`, as for the rest.
        by: who says it.
        to: a trajectory (its id or how it begins), a task, or "*".
        text: the words.
        why: a reason.
        turn: from 1; 0: the last, or the one that waits.
        pattern: a regular expression.
        action: an action as text.
        node: the action that an approve, reject or edit is about.
        at: Unix seconds; now if None.
        id: of your own, where the same thing may be said twice by mistake.

    Returns:
        What was said: one word, or one for each action that it decides on.

    Raises:
        UsageError: the run is not there, has ended, or hears nobody; nobody is called so; the word is none; no action
            waits.
        StoreError: it cannot be kept.
    """
    more: dict[str, Any] = {"text": text, "why": why, "turn": turn, "pattern": pattern, "action": action, "node": node}
    when = time.time() if at is None else at
    word(run_id, kind, by, when, to=to, id=id, **more)
    with _reading(lake) as opened:
        run = _listening(opened, run_id)
        folder = folder_of(str(opened.location))
        to = to if to == EVERYONE else _addressee(opened, run, to)
    names = [node] if node else [""]
    if kind in _DECISIONS:
        names = _decided_on(folder, run_id, kind, to, turn, node)
    if len(names) > 1 and kind == "edit":
        raise UsageError(f"{len(names)} actions wait for approval: say with to or node which one is edited")
    ids = [id] + [f"{id}.{place}" if id else "" for place in range(2, len(names) + 1)]
    said = [
        word(run_id, kind, by, when, to=to, id=own, **{**more, "node": name})
        for own, name in zip(ids, names, strict=True)
    ]
    Mailbox(folder, run_id).say(*said)
    return said


def words(lake: Where, run_id: str) -> list[Word]:
    """All that was said to a run, in order.

    Raises:
        StoreError: it cannot be read.
    """
    return Mailbox(folder_of(_place(lake)), run_id).read()


def events(lake: Where, run_id: str, start: int = 0) -> Events:
    """What happens to a run's trajectories: each `read` gives what is new. `start`: an earlier reader's `place`."""
    return Events(folder_of(_place(lake)), run_id, start)


def waiting(lake: Where, run_id: str) -> list[Waiting]:
    """Whose actions wait for approval now, the longest first.

    Raises:
        StoreError: it cannot be read.
    """
    return waiting_of(events(lake, run_id).read())


def _decided_on(folder: Path, run_id: str, kind: str, to: str, turn: int, node: str) -> list[str]:
    """The actions that a decision is about; for an edit where none waits, none by name."""
    there = waiting_of(Events(folder, run_id).read())
    found = [each for each in there if to in (EVERYONE, each.trajectory_id, each.task_id)]
    found = [each for each in found if (not turn or each.turn == turn) and (not node or each.node_id == node)]
    if found:
        return [each.node_id for each in found]
    if kind == "edit":
        return [node]
    raise UsageError(f"run {run_id}: no action waits for approval{_which(to, turn, node)}; see `silva guide list`")


def _which(to: str, turn: int, node: str) -> str:
    parts = [f"of {to[:40]}" if to != EVERYONE else "", f"at turn {turn}" if turn else "", node[:12]]
    return "".join(f" {part}" for part in parts if part)


def _listening(lake: Lake, run_id: str) -> Run:
    run = lake.run(run_id)
    if run is None:
        raise NotThereError(f"lake {lake.location}: has no run {run_id!r}; see `silva trees list`")
    if run.finished and run.status == "finished":
        raise UsageError(f"run {run_id} has ended: nobody is there to hear it")
    if run.config.get("on") == "ray" or str(run.agent).startswith("program:"):
        raise UsageError(f"run {run_id} is played by programs or on Ray: words do not reach agents there")
    if run.command != "rollout":
        raise UsageError(f"run {run_id} was made by {run.command[:40]}, not by a rollout: nobody is there to hear it")
    return run


def _addressee(lake: Lake, run: Run, to: str) -> str:
    """The full id of whom a word is for.

    Raises:
        UsageError: nobody is called so, several are, or its trajectory has ended.
    """
    if lake.tasks(run_id=run.id, where=field("id") == to, limit=1):
        return to
    between = (field("id") >= to) & (field("id") < to + chr(0x10FFFF))
    ended = lake.trajectories(run_id=run.id, where=between, limit=4) if to else []
    if len(ended) == 1 and not ended[0].superseded:
        raise UsageError(f"trajectory {ended[0].id[:12]} of run {run.id} has ended: nobody is there to hear it")
    found = {each.id for each in ended if each.superseded} | set(_places(lake, run, to))
    if not found:
        raise UsageError(f"run {run.id} has no trajectory or task {to[:60]!r}; see `silva guide attach {run.id}`")
    if len(found) > 1:
        raise UsageError(f"{to[:40]} begins the ids of {len(found)} trajectories of run {run.id}; give more of it")
    return found.pop()


def _places(lake: Lake, run: Run, start: str) -> Iterator[str]:
    """Trajectories, ended or not, whose ids begin so: the ids follow from the run's tasks."""
    if not start or set(start) - set("0123456789abcdef"):
        return
    left = lake.trajectories(run_id=run.id, where=field("superseded") == True)  # noqa: E712 - a filter
    attempts = 2 + max((each.attempt for each in left), default=0)
    group = int(run.config.get("group") or 1)
    tasks = [each for each in lake.tasks(run_id=run.id) if each.env in run.envs or len(run.envs) == 1]
    if len(tasks) * group * attempts > _MOST_PLACES:
        if len(start) == 32:
            yield start
        return
    for task in tasks:
        for index in range(group):
            for attempt in range(attempts):
                name = trajectory_id(run.id, task.id, index, attempt)
                if name.startswith(start):
                    yield name


def _place(lake: Where) -> str:
    return str(lake.location) if isinstance(lake, Lake) else str(lake)


@contextlib.contextmanager
def _reading(lake: Where) -> Iterator[Lake]:
    if isinstance(lake, Lake):
        yield lake
        return
    with Lake.open(lake, mode="read") as opened:
        yield opened
