"""A contrast: two attempts at one task, one of which ended better, and where they part.

What a single good walk shows may be luck or habit; what the better sibling did *where the worse one did something
else* is what made the difference as far as the record can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from silva.curate.rows import Row
from silva.redteam.exploring import safe
from silva.rollout.guided_nodes import not_taken, takes_turn
from silva.tree import Author, Node, Record

Kind = Literal["do", "avoid"]


class Step(Record, frozen=True, kw_only=True):
    """An action and what came back; `answer` is "" at the end of a walk."""

    action: Node
    answer: str = ""


class Contrast(Record, frozen=True, kw_only=True):
    """Two attempts at one task. `kind` is `avoid` where the worse one was unsafe and the better one was measured and
    safe, else `do`, where the better one scored more. `seen` is what both had before them where they part, `better` and
    `worse` their steps from there on."""

    kind: Kind
    env: str
    task_id: str
    task: str
    seen: str
    better_id: str
    worse_id: str
    better: tuple[Step, ...]
    worse: tuple[Step, ...]
    gap: float


def contrasts(rows: Iterable[Row], margin: float = 0.0) -> list[Contrast]:
    """The contrasts of all tasks: of each the safest, best and shortest attempt against each that ended worse.

    Args:
        rows: trajectories; others are passed over.
        margin: the least difference in score.
    """
    tasks: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.trajectory is not None and not row.trajectory.superseded:
            tasks[row.trajectory.env, row.trajectory.task_id].append(row)
    found: list[Contrast] = []
    for attempts in tasks.values():
        ranked = sorted(attempts, key=lambda row: (safe_of(row) is False, -score_of(row), len(row.nodes), row.id))
        for worse in ranked[1:]:
            contrast = _between(ranked[0], worse, margin)
            if contrast is not None:
                found.append(contrast)
    return found


def score_of(row: Row) -> float:
    """What an attempt was worth; an attempt that nobody judged is worth nothing."""
    return (row.trajectory.outcome.score if row.trajectory else None) or 0.0


def safe_of(row: Row) -> bool | None:
    """Whether an attempt was safe; None where nothing measured it. A risk that was seen is none the less one."""
    if any(node.risks for node in row.nodes):
        return False
    return safe(row.trajectory) if row.trajectory else None


def _between(better: Row, worse: Row, margin: float) -> Contrast | None:
    assert better.trajectory is not None and worse.trajectory is not None
    gap = score_of(better) - score_of(worse)
    unsafe = safe_of(worse) is False and safe_of(better) is True
    if score_of(better) <= 0 or (not unsafe and gap <= margin):
        return None  # what came to nothing is no example, however safe
    steps, others = _steps(better.nodes), _steps(worse.nodes)
    part = next((n for n, (a, b) in enumerate(zip(steps, others, strict=False)) if not _same(a, b)), None)
    if part is None:
        part = min(len(steps), len(others))
    if part == len(steps):
        return None  # the worse one went on where the better one ended: there is nothing to do otherwise
    return Contrast(
        kind="avoid" if unsafe else "do",
        env=better.trajectory.env,
        task_id=better.trajectory.task_id,
        task=_task(better),
        seen=steps[part - 1].answer if part else "",
        better_id=better.id,
        worse_id=worse.id,
        better=tuple(steps[part:]),
        worse=tuple(others[part:]),
        gap=gap,
    )


def _steps(nodes: tuple[Node, ...]) -> list[Step]:
    untaken = not_taken(nodes)
    steps: list[Step] = []
    for place, node in enumerate(nodes):
        if not takes_turn(node) or node.id in untaken:
            continue
        back: list[str] = []
        for later in nodes[place + 1 :]:
            if takes_turn(later):
                break
            back.append(later.message.text)
        steps.append(Step(action=node, answer="\n".join(back)))
    return steps


def _same(one: Step, other: Step) -> bool:
    """Whether two steps are the same, in what was done and in what came back."""
    a, b = one.action.message, other.action.message
    return (a.text, _calls(one), one.answer) == (b.text, _calls(other), other.answer)


def _calls(step: Step) -> tuple[tuple[str, str], ...]:
    return tuple((call.name, call.arguments) for call in step.action.message.tool_calls)


def _task(row: Row) -> str:
    """What was asked: the last thing said before the first action by anybody but memory."""
    asked = ""
    for node in row.nodes:
        if takes_turn(node):
            break
        if node.message.role == "user" and node.author is not Author.MEMORY:
            asked = node.message.text or asked
    return asked
