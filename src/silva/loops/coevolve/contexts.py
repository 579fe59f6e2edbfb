"""From signals to the contexts that an exploration begins at; and as many without signals, the control."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from silva.curate.signals.reader import readers
from silva.curate.signals.signal import Signal
from silva.loops.roles import Context
from silva.tree import Trajectory, digest


def signalled(signals: Sequence[Signal], count: int, seed: int) -> list[Context]:
    """So many contexts: kinds of signals in turn, of each kind the tasks in turn; a place in a walk stands once.

    Kinds take turns because they are not equally frequent: most signals of a policy that learns are boundaries, and
    what is rare is rare among signals too.
    """
    of_kind: defaultdict[str, list[Signal]] = defaultdict(list)
    for each in sorted(signals, key=lambda each: digest("context", str(seed), each.id)):
        of_kind[each.kind].append(each)
    queues = [_in_turn(of_kind[kind]) for kind in sorted(of_kind)]
    known = readers()
    found: dict[tuple[str, str], Signal] = {}
    for row in zip_longest(*queues):
        for each in row:
            if each is not None and each.node:
                found.setdefault((each.trajectory, each.node), each)
    return [
        Context(
            trajectory=each.trajectory,
            node=each.node,
            behind=each.kind in known and known[each.kind].behind,
            signal=each.kind,
            signal_id=each.id,
            focus=each.focus,
            evidence=", ".join(f"{name} {value}" for name, value in each.evidence.items()),
        )
        for each in list(found.values())[:count]
    ]


def unguided(trajectories: Sequence[Trajectory], count: int, seed: int) -> list[Context]:
    """So many contexts: walks drawn by the seed, each again only when all were drawn; the exploration spreads itself
    over them."""
    known = [each for each in trajectories if each.leaf_id is not None and each.turns and not each.superseded]
    order = sorted(known, key=lambda each: digest("unguided", str(seed), each.id))
    return [Context(trajectory=order[place % len(order)].id) for place in range(count if order else 0)]


def _in_turn(signals: Sequence[Signal]) -> list[Signal]:
    of_task: defaultdict[str, list[Signal]] = defaultdict(list)
    for each in signals:
        of_task[each.task].append(each)
    return [each for row in zip_longest(*of_task.values()) for each in row if each is not None]
