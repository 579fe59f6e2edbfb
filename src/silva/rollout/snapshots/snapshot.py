"""A snapshot: the record of a state that was kept, as it stands on the node it was taken after.

node.snapshot_id = id        node.attributes["snapshot"] = everything else
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.tree import Node, Record

ATTRIBUTE = "snapshot"


class Snapshot(Record, frozen=True, kw_only=True):
    """`id`: what the state is asked for by. `node_id`: the node after which it was taken. `kind`: `own` (the
    environment keeps it) or `state` (a blob of the lake). `fidelity`: exact, files+replay or replay. `digest` (sha256)
    and `size` (bytes) are of what was stored; `seconds` is what it took; `versions` of what made it; `seal` says that
    it was made on this machine."""

    id: str
    node_id: str = ""
    kind: str = "state"
    fidelity: str = "exact"
    digest: str = ""
    size: int = 0
    seconds: float = 0.0
    versions: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    seal: str = ""

    def attributes(self) -> dict[str, Any]:
        """What the node says of it."""
        facts = msgspec.to_builtins(self)
        return {ATTRIBUTE: {name: value for name, value in facts.items() if name not in ("id", "node_id")}}


def snapshot_of(node: Node) -> Snapshot | None:
    """The snapshot taken after a node; None where there is none, or its record cannot be read."""
    facts = node.attributes.get(ATTRIBUTE)
    if not node.snapshot_id or not isinstance(facts, dict):
        return None
    try:
        return msgspec.convert({**facts, "id": node.snapshot_id, "node_id": node.id}, Snapshot)
    except msgspec.ValidationError:
        return None
