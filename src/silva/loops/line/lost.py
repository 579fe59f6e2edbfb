"""Attempts that were lost: a model server or a host of environments broke under them; that says nothing of the policy.

    an attempt failed at `model` or `infrastructure` ─▶ superseded, in the lake ─▶ its place is empty, and is played

Every reader of a lake passes over what is superseded, so a lost attempt stays to be looked at and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from silva.lake import Lake
from silva.report.summary import counted
from silva.tree import Boundary, Trajectory

BOUNDARIES = frozenset({Boundary.MODEL, Boundary.INFRASTRUCTURE})
OWN = frozenset({"model.context_length", "env.memory"})
"""Codes of those boundaries that are the attempt's own doing: a conversation too long is so however often it is had,
and an action that wants more memory than a host may have wants it again."""


def lost(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Those that count and were lost."""
    return [each for each in counted(trajectories) if _is_lost(each)]


def give_back(location: str, run: str) -> int:
    """Empty the places of a run whose attempts were lost; return how many there were.

    Args:
        location: of the lake.
        run: its name; nobody plays it meanwhile.

    Raises:
        StoreError: the lake cannot be read or written.
    """
    found = lost(Lake.open(location, mode="read").trajectories(run_id=run))
    if found:
        # Before they are played again: whoever is killed in between finds the places empty.
        with Lake.open(location) as lake:
            lake.append_sync([msgspec.structs.replace(each, superseded=True) for each in found])
    return len(found)


def _is_lost(trajectory: Trajectory) -> bool:
    failure = trajectory.outcome.failure
    return failure is not None and failure.boundary in BOUNDARIES and failure.code not in OWN
