"""From runs of a lake to signals, and the signals kept beside the walks they are about.

runs, as they followed each other ─▶ attempts: a step for each run and policy version ─▶ readers ─▶ signals
signal ─▶ Supervision (a note) on its node ─▶ signals_of: read back
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from silva.curate.signals.attempt import Attempt
from silva.curate.signals.reader import Reader
from silva.curate.signals.signal import Signal
from silva.curate.turn import read_walk
from silva.errors import UsageError
from silva.lake import Lake, field
from silva.redact import redact
from silva.tree import Supervision, Trajectory, deciding, digest

BY = "signals"
"""What stands before the reader's name in `Supervision.by`."""

SIGNAL = "signal"
"""The attribute of a supervision that holds a signal."""


def attempts_of(lake: Lake, runs: Sequence[str]) -> list[Attempt]:
    """The attempts of some runs, step by step; in a step by task and place.

    Args:
        lake: where they are.
        runs: in the order in which they followed each other. The versions of a policy that learns while it plays are
            steps of one run, in the order in which they first played.

    Raises:
        UsageError: there is no such run, or a run has no walk.
    """
    asked = list(dict.fromkeys(runs))
    there = {run.id for run in lake.runs(where=field("id").is_in(asked))}
    lacking = next((run for run in asked if run not in there), None)
    if lacking is not None:
        raise UsageError(f"lake {lake.location}: has no run {lacking!r}; see `silva trees list`")
    of_run: dict[str, list[Trajectory]] = {run: [] for run in asked}
    for each in lake.trajectories(where=field("run_id").is_in(asked)):
        if each.leaf_id is not None and not each.superseded:
            of_run[each.run_id].append(each)
    empty = next((run for run, mine in of_run.items() if not mine), None)
    if empty is not None:
        raise UsageError(f"run {empty!r}: has no trajectory with a turn in it")
    said: dict[tuple[str, str], list[Supervision]] = defaultdict(list)
    for each in lake.supervisions(where=field("run_id").is_in(asked)):
        if SIGNAL not in each.attributes:
            said[each.run_id, each.node_id].append(each)
    steps = [step for mine in of_run.values() for step in _by_version(mine)]
    made = [(each, number) for number, step in enumerate(steps) for each in step]
    found: list[Attempt] = []
    for (each, step), nodes in zip(made, lake.walks([each for each, _ in made]), strict=True):
        judged = deciding(word for node in nodes for word in said.get((each.run_id, node.id), ()))
        found.append(Attempt(trajectory=each, walk=read_walk(nodes, each.outcome), step=step, judged=judged))
    return found


def _by_version(trajectories: Iterable[Trajectory]) -> list[list[Trajectory]]:
    """A run's steps: its versions as they first played, of each the attempts by task and place."""
    found: dict[str, list[Trajectory]] = {}
    for each in trajectories:
        found.setdefault(each.policy_version, []).append(each)
    steps = sorted(found.items(), key=lambda each: min(one.started for one in each[1]))
    return [sorted(mine, key=lambda t: (t.task_id, t.tree_id, t.index, t.attempt, t.id)) for _, mine in steps]


def signals_in(attempts: Sequence[Attempt], readers: Sequence[Reader], since: int = 0) -> list[Signal]:
    """What readers find in the attempts made at step `since` or later. An attempt may have signals of several kinds."""
    return [signal for reader in readers for signal in reader.read(attempts, since)]


def first_step(attempts: Sequence[Attempt], run: str) -> int:
    """The first step of a run.

    Raises:
        UsageError: it has no attempt.
    """
    steps = [each.step for each in attempts if each.trajectory.run_id == run]
    if not steps:
        raise UsageError(f"run {run!r}: has no attempt")
    return min(steps)


def keep(lake: Lake, signals: Sequence[Signal]) -> int:
    """Append signals to a lake, each as a note on its node (on the walk's last one where it points at none); return
    how many are new. The same signals once more add nothing.

    Raises:
        StoreError: the lake cannot be written.
    """
    now = time.time()
    made: dict[str, Supervision] = {}
    for each in signals:
        node = each.node or lake.trajectory(each.trajectory).leaf_id
        if node is None:
            continue
        made[each.id] = Supervision(
            id=digest(BY, each.id),
            node_id=node,
            run_id=each.run,
            verdict="note",
            source="rule",
            by=f"{BY}:{each.kind}",
            reason=redact(each.focus),
            at=now,
            attributes={SIGNAL: msgspec.to_builtins(each)},
        )
    known = {one.id for run in {each.run_id for each in made.values()} for one in lake.supervisions(run_id=run)}
    new = [each for each in made.values() if each.id not in known]
    lake.append_sync(new)
    return len(new)


def signals_of(lake: Lake, run: str) -> list[Signal]:
    """The signals kept about a run, in the order of their kinds, tasks and turns."""
    found = [
        msgspec.convert(each.attributes[SIGNAL], Signal)
        for each in lake.supervisions(run_id=run)
        if SIGNAL in each.attributes
    ]
    return sorted(found, key=lambda each: (each.kind, each.task, each.trajectory, each.turn))
