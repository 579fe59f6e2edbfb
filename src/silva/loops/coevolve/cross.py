"""Cross tables: which attempts at held-out tasks one version gets right and another wrong (the paper's table 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Sheet
from silva.report.summary import counted
from silva.tree import Trajectory

Places = dict[tuple[str, int], bool]


def crossed(loop: Loop[CoEvolveConfig]) -> list[Sheet]:
    """The head against the base, and against the head of `against`; nothing before the proof.

    Raises:
        UsageError: `against` is no loop that is over, or measured other tasks.
    """
    mine = _proof(loop)
    if mine is None:
        return []
    part = f"{loop.config.line}.test"
    head = _places(loop, f"{part}.{mine['head']}")
    sheets = [_sheet(f"{mine['head']} and the base", "base", _places(loop, f"{part}.{mine['base']}"), head)]
    if loop.config.against is not None:
        other = read_loop(loop.config.against)[1]
        found = _proof(other)
        if found is None:
            raise UsageError(f"against {loop.config.against}: that loop has no proof yet; turn it to its end first")
        left = _places(other, f"{other.config.line}.test.{found['head']}")
        if left.keys() != head.keys():
            raise UsageError(
                f"against {loop.config.against}: it was measured on other tasks; give both loops the same tasks, seed "
                "and measure"
            )
        sheets.append(_sheet(f"{mine['head']} and {found['head']} of {other.folder.name}", "the other", left, head))
    return sheets


def _proof(loop: Loop[Any]) -> Mapping[str, Any] | None:
    found = [said for each in loop.plan if each.kind == "prove" and (said := loop.outputs(each.name)) is not None]
    return found[-1] if found and found[-1]["head"] != found[-1]["base"] else None


def _places(loop: Loop[Any], run: str) -> Places:
    with Lake.open(loop.lake, mode="read") as lake:
        return of_places(lake.trajectories(run_id=run))


def of_places(trajectories: Iterable[Trajectory]) -> Places:
    """Whether each place, a task and a number in its group, was solved."""
    return {(each.task_id, each.index): bool(each.outcome.success) for each in counted(trajectories)}


def _sheet(title: str, left: str, one: Places, other: Places) -> Sheet:
    counts = Counter((one[place], other[place]) for place in one.keys() & other.keys())
    total = sum(counts.values()) or 1
    rows = [
        (
            f"{left} {'right' if before else 'wrong'}",
            *(round(counts[before, after] / total, 4) for after in (True, False)),
        )
        for before in (True, False)
    ]
    return Sheet(title=f"Attempts at test: {title}", columns=("", "head right", "head wrong"), rows=tuple(rows))
