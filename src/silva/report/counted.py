"""Shares that an environment counts beside success: how many were asked, how many were right, over all attempts.

    outcome.metrics {"ans_asked": 1, "ans_right": 1, "tool_asked": 4, "tool_right": 3} ─▶ CountedShare, by environment

Any environment whose metrics hold a pair NAME_asked and NAME_right has one. The denominator is told with each: what
was not asked of an attempt is in neither. Attempts that broke counted nothing, and are not among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from silva.report.interval import Interval, proportion
from silva.tree import Record, Trajectory

ASKED, RIGHT = "_asked", "_right"
TITLES = {"ans": "AnsAcc", "tool": "ToolAcc", "code": "CodeExec", "files": "files as wanted"}
"""What known figures are called, in the order in which they are told; others come after them."""
OF = {"ans": "answers checked", "tool": "reference calls", "code": "turns", "files": "file conditions"}
MOST = 1000
"""Units of one attempt that count: an environment's number is somebody else's."""


class CountedShare(Record, frozen=True, kw_only=True):
    """One share of one environment, in the attempts that it was counted in. `share` is over all units together, its
    interval clustered by task; None where nothing was asked."""

    env: str
    name: str
    title: str
    of: str
    asked: int
    right: int
    attempts: int
    share: Interval | None


def counted_shares(attempts: Iterable[Trajectory]) -> tuple[CountedShare, ...]:
    """The shares of some attempts, by environment and name."""
    units: defaultdict[tuple[str, str], defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    told: defaultdict[tuple[str, str], int] = defaultdict(int)
    for each in attempts:
        metrics = each.outcome.metrics
        for name in (key.removesuffix(ASKED) for key in metrics if key.endswith(ASKED)):
            if f"{name}{RIGHT}" not in metrics:
                continue
            asked = min(max(int(metrics[f"{name}{ASKED}"]), 0), MOST)
            right = min(max(int(metrics[f"{name}{RIGHT}"]), 0), asked)
            told[each.env, name] += 1
            units[each.env, name][each.task_id] += [True] * right + [False] * (asked - right)
    found: list[CountedShare] = []
    order = {name: place for place, name in enumerate(TITLES)}
    for (env, name), by_task in sorted(
        units.items(), key=lambda item: (item[0][0], order.get(item[0][1], 99), item[0])
    ):
        clusters = list(by_task.values())
        found.append(
            CountedShare(
                env=env,
                name=name,
                title=TITLES.get(name, name),
                of=OF.get(name, "asked"),
                asked=sum(map(len, clusters)),
                right=sum(map(sum, clusters)),
                attempts=told[env, name],
                share=proportion(clusters),
            )
        )
    return tuple(found)
