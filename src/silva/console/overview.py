"""A run in figures, from its light rows: how far, how fast, how good, how safe, what broke, what it cost.

Statistics of the report (`silva.report`) have intervals and are for conclusions; these are for watching, and cost
milliseconds for ten thousand attempts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from silva.console.attempt import CUT, RUNNING, Attempt
from silva.console.forest import Forest
from silva.console.presence import Presence, counted
from silva.tree import Run

MOST_DOTS = 400
"""Dots of a scatter plot; where there are more places, those that lie close share one."""


def overview(forest: Forest, run: Run, presence: Presence) -> dict[str, Any]:
    """A line of the list of runs."""
    attempts = [each for each in forest.by_run.get(run.id, {}).values() if not each.superseded]
    live = sum(each.status == RUNNING for each in attempts)
    cut = sum(each.status == CUT for each in attempts)
    judged = [each for each in attempts if each.success is not None]
    scores = [each.score for each in attempts if each.score is not None]
    safe = [each.safety for each in attempts if each.safety is not None]
    moved = max((each.moved for each in attempts), default=run.started)
    return {
        "id": run.id,
        "command": run.command,
        "envs": list(run.envs),
        "model": run.model,
        "agent": run.agent,
        "status": run.status if run.finished or run.status != "running" else "running",
        "started": run.started,
        "finished": run.finished,
        "moved": max(moved, run.finished),
        "expected": expected(forest, run),
        "ended": len(attempts) - live - cut,
        "live": live,
        "states": counted(presence, run, attempts),
        "failed": sum(each.status == "failed" for each in attempts),
        "success": sum(each.success is True for each in judged) / len(judged) if judged else None,
        "score": sum(scores) / len(scores) if scores else None,
        "safety": sum(safe) / len(safe) if safe else None,
        "turns": sum(each.turns for each in attempts),
        "tokens": sum(each.tokens for each in attempts),
        "usd": sum(each.usd for each in attempts),
    }


def detail(forest: Forest, run: Run, presence: Presence) -> dict[str, Any]:
    """The line, and with it failures by cause, safety against score, and what stands in the run's record."""
    attempts = [each for each in forest.by_run.get(run.id, {}).values() if not each.superseded]
    causes = Counter((each.boundary, each.failure.partition(":")[0]) for each in attempts if each.boundary)
    return {
        **overview(forest, run, presence),
        "causes": [{"boundary": where, "code": code, "count": n} for (where, code), n in causes.most_common(12)],
        "scatter": scatter(attempts),
        "seed": run.seed,
        "code": run.lineage.code,
        "config": run.config,
    }


def scatter(attempts: list[Attempt]) -> list[dict[str, Any]]:
    """Safety against score, attempts of the same place in one dot."""
    judged = [(each.score, each.safety) for each in attempts if each.score is not None and each.safety is not None]
    places = Counter((round(score, 2), round(safety, 2)) for score, safety in judged)
    if len(places) > MOST_DOTS:
        coarse: Counter[tuple[float, float]] = Counter()
        for (score, safety), count in places.items():
            coarse[round(20 * score) / 20, round(20 * safety) / 20] += count
        places = coarse
    return [{"score": score, "safety": safety, "count": count} for (score, safety), count in sorted(places.items())]


def expected(forest: Forest, run: Run) -> int | None:
    """How many attempts the run is to make, where its configuration tells; at most so many where it only limits."""
    wanted: dict[str, Any] = run.config.get("tasks") or {}
    group = run.config.get("group")
    if run.command != "rollout" or not isinstance(group, int):
        return None
    if wanted.get("ids"):
        return len(wanted["ids"]) * group
    if isinstance(wanted.get("limit"), int):
        return wanted["limit"] * max(1, len(run.envs)) * group
    split, envs = wanted.get("split", "test"), {env.partition(":")[0] for env in run.envs}
    count = sum(task.env in envs and task.split == split for task in forest.tasks.values())
    return count * group or None
