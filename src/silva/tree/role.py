"""Roles of an episode: several agents, each with a walk of its own, in one tree and one trajectory's record.

    slot "0.0"            the walk of the role that the trajectory is about (the first that its environment declares)
    slot "0.0/attacker"   the walk of another role, with a root of its own in the same tree
    attributes.role       whose walk `leaf_id` ends
    attributes.roles      {role: leaf_id, model, agent, policy_version, turns, score, reward, tokens, seconds, usd}

`in_role` shows the trajectory as another of its roles: the same episode, that role's walk, score and model. What
trains, prints or judges walks then needs to know nothing of roles: a role's own turns are the policy's on its walk, and
what the others said is what its environment told it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from silva.tree.message import Json
from silva.tree.trajectory import Trajectory

ROLE = "role"
"""The attribute of a trajectory, and of an action's node, that says whose it is."""

ROLES = "roles"
"""The attribute of a trajectory of several agents: what is known of each, by its role."""

ORDER = "order"
"""The attribute of an action's node: which action of the whole episode it is, from 1."""

SPEAKER = "speaker"
"""The attribute of a node that holds another role's words: whose they are."""

SAID = "said"
"""The attribute of a node that holds another role's words: the node on which they were said."""


def role_slot(slot: str, role: str) -> str:
    """The slot of another role's nodes in the attempt that `slot` names."""
    return f"{slot}/{role}"


def attempt_of(slot: str) -> str:
    """The attempt that a node's slot belongs to, whichever role's it is."""
    return slot.partition("/")[0]


def roles_of(trajectory: Trajectory) -> dict[str, Json]:
    """What is known of each role of a trajectory; empty where a single agent acted."""
    found = trajectory.attributes.get(ROLES)
    return cast("dict[str, Json]", found) if isinstance(found, dict) else {}


def in_role(trajectory: Trajectory, role: str) -> Trajectory:
    """The trajectory as one of its roles: that role's walk, model, turns, score and reward. What the episode cost stays
    the whole episode's.

    Raises:
        KeyError: no such role acted in it.
    """
    known: dict[str, Any] = roles_of(trajectory)[role]
    if role == trajectory.attributes.get(ROLE):
        return trajectory
    attributes = {name: value for name, value in trajectory.attributes.items() if name != "leaves"}
    score = known.get("score")
    return msgspec.structs.replace(
        trajectory,
        leaf_id=known.get("leaf_id"),
        agent=str(known.get("agent", "")),
        model=str(known.get("model", "")),
        policy_version=str(known.get("policy_version", "")),
        turns=int(known.get("turns", 0)),
        reward=float(known.get("reward", 0.0)),
        outcome=msgspec.structs.replace(trajectory.outcome, score=score, success=None),
        attributes={**attributes, ROLE: role},
    )


def in_roles(trajectories: Iterable[Trajectory], role: str) -> list[Trajectory]:
    """Those trajectories in which a role acted, as that role; all of them as they are where none is named."""
    return [in_role(each, role) if role else each for each in trajectories if not role or role in roles_of(each)]
