"""Born: a synthesised task with all that is known of how it came about, kept in the lake as a task of its run.

    Validated ─▶ safety ─▶ (a person) ─▶ Born ─▶ Task.born, in the table `tasks` of the lake
                                                    ▲ read back: born(lake, run)

What was refused is kept like what was accepted, with the reason: what a loop did not learn from is part of its record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from silva.envs.protocol import Goal
from silva.errors import StoreError
from silva.lake import Lake
from silva.loops.roles.candidate import Source
from silva.loops.roles.validation import Reason, Validated
from silva.rollout.acted import Acted
from silva.tree import Message, Record, Task, digest

Verdict = Literal["accepted", "waiting", "refused"]


class Approval(Record, frozen=True, kw_only=True):
    """What a person said of a task. `at`: Unix seconds."""

    by: str
    approved: bool
    why: str = ""
    at: float = 0.0


class Born(Record, frozen=True, kw_only=True):
    """How a synthesised task came about. `parent`: the task in whose place it is; `verdict`: accepted, waiting (for a
    person), or refused for the `reason`, with `why` in words; `solution`: the actions that were carried out; `steps`:
    of the environment that validating took; `similarity` to the `nearest` held-out task; `acted`: every role that had a
    hand in it; `safety`: what the filter found; `round`: of the loop."""

    parent: str
    goal: Goal
    verdict: Verdict
    reason: Reason = ""
    why: str = ""
    source: Source = Source()
    solution: tuple[Message, ...] = ()
    score: float | None = None
    success: bool | None = None
    reward: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    similarity: float | None = None
    nearest: str = ""
    safety: tuple[str, ...] = ()
    approval: Approval | None = None
    acted: tuple[Acted, ...] = ()
    round: int = 0


def task_of(validated: Validated, round: int = 0, safety: Sequence[str] = (), waiting: bool = False) -> Task:
    """The task with how it came about.

    Args:
        validated: what validation came to.
        round: of the loop.
        safety: what the filter found; anything makes it refused.
        waiting: whether a person has to approve it first.
    """
    candidate, reason, why = validated.candidate, validated.reason, validated.why
    if safety and not reason:
        reason, why = "unsafe", "; ".join(safety)
    born = Born(
        parent=candidate.place.id,
        goal=candidate.goal,
        verdict="refused" if reason else "waiting" if waiting else "accepted",
        reason=reason,
        why=why,
        source=candidate.source,
        solution=validated.solution or candidate.solution,
        score=validated.score,
        success=validated.success,
        reward=validated.reward,
        steps=validated.steps,
        seconds=validated.seconds,
        similarity=validated.similarity,
        nearest=validated.nearest,
        safety=tuple(safety),
        acted=candidate.acted,
        round=round,
    )
    # One that the environment did not make has no id of its own.
    made = validated.task or Task(
        id=f"{candidate.place.id}/{digest('goal', msgspec.msgpack.encode(candidate.goal, order='sorted'))[:12]}",
        env=candidate.place.env,
        instruction=candidate.goal.words,
        split="refused",
        data=candidate.place.data,
    )
    return with_born(made, born)


def with_born(task: Task, born: Born) -> Task:
    """The task, saying so of itself."""
    return msgspec.structs.replace(task, born=msgspec.to_builtins(born))


def born_of(task: Task) -> Born | None:
    """How a task came about; None for one that no role made.

    Raises:
        StoreError: what it says cannot be read.
    """
    if task.born is None:
        return None
    try:
        return msgspec.convert(task.born, Born)
    except msgspec.ValidationError as error:
        raise StoreError(f"task {task.id}: how it came about cannot be read ({error})") from error


def born(lake: Lake, run: str, round: int | None = None) -> list[tuple[Task, Born]]:
    """The synthesised tasks of a run, refused ones too, by id. With `round` those alone that it made in that round: a
    run that was explored from tasks of earlier rounds, or of another loop, has these, too.

    Raises:
        StoreError: what one says of itself cannot be read.
    """
    tasks = sorted(lake.tasks(run_id=run), key=lambda task: task.id)
    made = [(task, found) for task in tasks if (found := born_of(task)) is not None]
    if round is None:
        return made
    return [(task, found) for task, found in made if found.round == round and found.source.explored in ("", run)]


async def keep(lake: Lake, run: str, tasks: Iterable[Task]) -> list[Task]:
    """Keep synthesised tasks as that run's own, durably; kept again, the later word on one counts. A refused one never
    takes the place of one that was accepted under its id."""
    owned = [task.owned_by(run) for task in tasks]
    taken = {task.id for task, known in born(lake, run) if known.verdict != "refused"}
    kept: dict[str, Task] = {}
    for task in sorted(owned, key=_refused):  # accepted ones first
        if _refused(task) and (task.id in taken or task.id in kept):
            task = msgspec.structs.replace(task, id=f"{task.id}#{digest('refused', _encoded(task.born))[:8]}")
        kept[task.id] = task
    await lake.append(list(kept.values()))
    return list(kept.values())


def _refused(task: Task) -> bool:
    found = born_of(task)
    return found is not None and found.verdict == "refused"


def _encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value, order="sorted")
