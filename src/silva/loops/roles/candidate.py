"""A candidate: a goal in a place that might become a task, with the actions said to bring it about, and who says so."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.envs.protocol import Goal
from silva.rollout.acted import Acted
from silva.tree import Json, Message, Record, Task


class Source(Record, frozen=True, kw_only=True):
    """Where a candidate comes from. `trajectory` and `node`: the walk, and its action at which the goal was reached;
    `explored`: the run that walked it; `signal`: the kind of what led there and `signal_id` its id, `seen`: the
    trajectory it was seen in. All "" for a candidate that was drawn and not walked."""

    trajectory: str = ""
    node: str = ""
    explored: str = ""
    signal: str = ""
    signal_id: str = ""
    seen: str = ""


class Candidate(Record, frozen=True, kw_only=True):
    """What might become a task. `place`: a task of the place it is in; `solution`: actions that are said to bring the
    goal about from the place's beginning (empty: none is known); `acted`: the roles that made it, with their costs;
    `notes`: what else they said of it."""

    place: Task
    goal: Goal
    solution: tuple[Message, ...] = ()
    source: Source = Source()
    acted: tuple[Acted, ...] = ()
    notes: Json = msgspec.field(default_factory=dict[str, Any])
