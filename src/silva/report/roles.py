"""The figures of each role of episodes in which several agents acted.

attempts ─▶ attributes.roles (`silva.tree.role`) ─▶ by role ─▶ RoleSummary: who played it, turns, score, cost
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from silva.report.interval import Interval, mean
from silva.tree import Record, Trajectory, roles_of


class RoleSummary(Record, frozen=True, kw_only=True):
    """One role over the attempts in which it was spoken to. `models` says who played it; `turns` and tokens are sums;
    `score` is of the attempts in which the environment gave it one, with its interval by task."""

    role: str
    models: tuple[str, ...]
    attempts: int
    turns: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    score: Interval | None


def by_role(attempts: Iterable[Trajectory]) -> tuple[RoleSummary, ...]:
    """The roles of some attempts, in the order in which they are recorded; empty where single agents acted."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for each in attempts:
        for role, facts in roles_of(each).items():
            found[role].append((each.task_id, facts))
    return tuple(_summed(role, members) for role, members in found.items())


def _summed(role: str, members: list[tuple[str, dict[str, Any]]]) -> RoleSummary:
    tasks: dict[str, list[float]] = defaultdict(list)
    for task, facts in members:
        if facts.get("score") is not None:
            tasks[task].append(float(facts["score"]))
    return RoleSummary(
        role=role,
        models=tuple(sorted({str(facts.get("model", "")) for _, facts in members})),
        attempts=len(members),
        turns=sum(int(facts.get("turns", 0)) for _, facts in members),
        prompt_tokens=sum(int(facts.get("prompt_tokens", 0)) for _, facts in members),
        completion_tokens=sum(int(facts.get("completion_tokens", 0)) for _, facts in members),
        usd=sum(float(facts.get("usd", 0.0)) for _, facts in members),
        score=mean(list(tasks.values()), within=(0.0, 1.0)),
    )
