"""What an experiment hands in: per seed before and after, together the gain with its interval; a table and JSON.

    a seed's Row (rates by task, before and after) ─▶ per task the mean over seeds ─▶ gain, 95 % interval over tasks

Attempts at one task are alike, in all seeds that measured it: each task counts once. A seed's own gain stands beside it, so that one that
lost is seen, and the interval over seeds and tasks (both drawn anew, 95 % of 4,000 draws): what another policy on other
tasks would gain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from silva.loops.line.verdict import gain

RESULTS = Path(__file__).parents[1] / "results" / "learning"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison of one seed. `more` are numbers of the training besides."""

    seed: int
    left: str
    right: str
    before: dict[str, float]
    after: dict[str, float]
    more: dict[str, float]


def together(rows: Sequence[Row]) -> dict[str, Any]:
    """All seeds of one comparison. A task counts once, as the mean of the seeds that measured it."""
    gains = [
        {task: row.after[task] - row.before[task] for task in sorted(row.before.keys() & row.after)} for row in rows
    ]
    tasks = sorted(set[str]().union(*gains))

    def mean(of: Callable[[int, str], float], task: str) -> float:
        return fmean(of(place, task) for place, each in enumerate(gains) if task in each)

    before = {task: mean(lambda place, task: rows[place].before[task], task) for task in tasks}
    after = {task: mean(lambda place, task: rows[place].after[task], task) for task in tasks}
    found = gain([after[task] - before[task] for task in tasks])
    assert found is not None and found.low is not None and found.high is not None
    names = sorted({name for row in rows for name in row.more})
    low, high = crossed([list(each.values()) for each in gains], alike=all(len(each) == len(tasks) for each in gains))
    return {
        "left": rows[0].left,
        "right": rows[0].right,
        "seeds": [row.seed for row in rows],
        "tasks": len(tasks),
        "before": round(fmean(before.values()), 4),
        "after": round(fmean(after.values()), 4),
        "gain": round(found.value, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "over_seeds": [round(low, 4), round(high, 4)],
        "by_seed": [
            {"before": round(fmean(row.before.values()), 4), "after": round(fmean(row.after.values()), 4)}
            for row in rows
        ],
        **{name: [round(row.more[name], 4) for row in rows if name in row.more] for name in names},
    }


def crossed(gains: Sequence[Sequence[float]], *, alike: bool = True) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean of gains, seeds by tasks, where both are drawn anew.

    Args:
        gains: of each seed, its tasks.
        alike: whether every seed measured the same tasks, which are then drawn once for all of them; else each seed's own.
    """
    drawn, count = np.random.default_rng(0), len(gains)
    means: list[float] = []
    for _ in range(4000):
        seeds = drawn.integers(count, size=count)
        if alike:
            tasks = drawn.integers(len(gains[0]), size=len(gains[0]))
            means.append(np.array(gains)[np.ix_(seeds, tasks)].mean())
        else:
            each = [np.array(gains[seed]) for seed in seeds]
            means.append(fmean(one[drawn.integers(len(one), size=len(one))].mean() for one in each))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def hand_in(name: str, env: str, policy: str, body: dict[str, Any], *, keep: bool = True) -> None:
    """Print an experiment's table and keep it beside those of other environments and policies."""
    table = Table(title=f"{name}: {policy} in {env}", title_justify="left")
    for column in ("what", "held-out tasks", "before", "after", "gain, 95 % interval", "each seed"):
        table.add_column(column)
    for each in body["comparisons"]:
        table.add_row(
            f"{each['left']} → {each['right']}",
            str(each["tasks"]),
            f"{100 * each['before']:.1f} %",
            f"{100 * each['after']:.1f} %",
            f"{100 * each['gain']:+.1f} [{100 * each['low']:+.1f}, {100 * each['high']:+.1f}]",
            ", ".join(f"{100 * (seed['after'] - seed['before']):+.1f}" for seed in each["by_seed"]),
        )
    Console(width=150).print(table)
    for key, value in body.items():
        if key not in ("command", "comparisons"):
            print(f"{key}: {value}")
    if not keep:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{name}.json"
    whole = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    whole[f"{policy} in {env}"] = body
    file.write_text(json.dumps(dict(sorted(whole.items())), indent=1) + "\n", encoding="utf-8")
