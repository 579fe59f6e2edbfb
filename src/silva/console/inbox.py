"""The inbox: every action that waits for a person's approval, over all runs, the longest wait first.

Presence.waiting ─▶ its run and attempt (Forest) ─▶ its node, if its tree can be read ─▶ what it would do, as fields
"""

from __future__ import annotations

import time
from typing import Any

from silva.console.attempt import RUNNING
from silva.console.calls import calls
from silva.console.trees import Trees
from silva.console.watch import Watch
from silva.errors import SilvaError
from silva.tree import Node

MOST = 200
"""Actions shown at a time."""


def inbox(watch: Watch, trees: Trees) -> dict[str, Any]:
    """Who waits.

    Returns:
        `waiting`: for each its `run`, `task`, `attempt` (id), `slot`, `turn`, `node`, `tree`, `since` (Unix seconds),
        `reasons`, `state` (`waiting`, or `dead` where nobody is there to take the answer) and `why`, `action` as text
        and `calls`, `text` where the node can be read; and `total`.
    """
    now = time.time()
    found: list[dict[str, Any]] = []
    for run, one in watch.presence.waiting():
        with watch.lock:
            attempt = watch.forest.by_id.get(one.trajectory_id)
            record = watch.forest.runs.get(run)
        if attempt is not None and attempt.status != RUNNING:
            continue
        state, why = watch.presence.state(record, attempt, now) if attempt is not None else ("waiting", "")
        found.append(
            {
                "run": run,
                "task": one.task_id,
                "attempt": one.trajectory_id,
                "slot": f"{one.index}.{one.attempt}",
                "turn": one.turn,
                "node": one.node_id,
                "tree": "" if attempt is None else attempt.tree,
                "since": one.since,
                "reasons": list(one.reasons),
                "state": state,
                "why": why,
                "action": one.action,
            }
        )
    for each in found[:MOST]:
        node = _node(trees, each["tree"], each["node"])
        if node is not None:
            each.update({"calls": calls(node.message), "text": node.message.text[:4_000]})
    return {"total": len(found), "waiting": found[:MOST]}


def _node(trees: Trees, tree: str, id: str) -> Node | None:
    try:
        return trees.open(tree).node(id) if tree else None
    except SilvaError:
        return None  # it is not in the journal yet: its text stands in the event
