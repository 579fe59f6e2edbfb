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
from silva.lake import Lake
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
    found: list[Attempt] = []
    step = 0
    for run in dict.fromkeys(runs):
        if lake.run(run) is None:
            raise UsageError(f"lake {lake.location}: has no run {run!r}; see `silva trees list`")
        mine = [each for each in lake.trajectories(run_id=run) if each.leaf_id is not None and not each.superseded]
        if not mine:
            raise UsageError(f"run {run!r}: has no trajectory with a turn in it")
        said: dict[str, list[Supervision]] = defaultdict(list)
        for each in lake.supervisions(run_id=run):
            if SIGNAL not in each.attributes:
                said[each.node_id].append(each)
        for _, group in sorted(_by_version(mine).items(), key=lambda each: min(t.started for t in each[1])):
            ordered = sorted(group, key=lambda t: (t.task_id, t.tree_id, t.index, t.attempt, t.id))
            for each, nodes in zip(ordered, lake.walks(ordered), strict=True):
                judged = deciding(word for node in nodes for word in said[node.id])
                found.append(Attempt(trajectory=each, walk=read_walk(nodes, each.outcome), step=step, judged=judged))
            step += 1
    return found


def _by_version(trajectories: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    for each in trajectories:
        found.setdefault(each.policy_version, []).append(each)
    return found


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
