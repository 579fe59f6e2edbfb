"""A file of rows that can be read: one JSON line for each, ids and labels beside what they say and what was said of it.

{"kind": "actions", "copies": 7, "input_ids": […], "labels": […],       labels: -100 where there is no loss
 "messages": [{"author": "person", "text": "…", "loss": false, "said": [{"by": "ann", …}]}, …],
 "run": …, "task": …, "trajectory": …, "segment": 0, "reward": 1.0,
 "left": [{"by": "ann", "reason": "…"}, …]}       what was said on earlier attempts at the place, which a person left

A row stands in it as often as it counts, so that what reads `input_ids` and `labels` alone is served right.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from silva.train.rows import Copies, Row, Rows
from silva.train.whole_file import Whole
from silva.tree import Json, Node, Supervision

IGNORED = -100
"""The label of an id without loss."""


def write_rows(path: Path, rows: Rows, copies: Copies, *, force: bool = False) -> int:
    """Write rows; return how many lines the file has.

    Raises:
        UsageError: the file is there and `force` is not said, or it cannot be written.
    """
    count = 0
    with Whole(path, force) as file:
        for row in rows.rows:
            line = _encode(row_json(row, copies)) + b"\n"
            for _ in range(copies.of(row.kind)):
                file.write(line)
                count += 1
    return count


def row_json(row: Row, copies: Copies) -> Json:
    """A row as it stands in the file."""
    sample = row.sample
    lossy = {a.node_id for a in sample.actions if sample.mask[a.start : a.stop].any()}
    said: dict[str, list[Supervision]] = {}
    for one in row.said:
        said.setdefault(one.node_id, []).append(one)
    return {
        "kind": row.kind,
        "copies": copies.of(row.kind),
        "run": sample.run_id,
        "task": sample.task_id,
        "trajectory": sample.trajectory_id,
        "segment": sample.segment,
        "reward": sample.reward if math.isfinite(sample.reward) else None,
        "input_ids": sample.ids.tolist(),
        "labels": np.where(sample.mask, sample.ids, IGNORED).tolist(),
        "messages": [_message(node, row, node.id in lossy, said.get(node.id, [])) for node in row.nodes],
        **({"left": [{"node": one.node_id, **_said(one)} for one in row.left]} if row.left else {}),
    }


def _message(node: Node, row: Row, loss: bool, said: list[Supervision]) -> dict[str, Any]:
    made: dict[str, Any] = {"node": node.id, "author": str(node.author), "role": node.message.role}
    made["text"] = node.message.text
    if node.message.tool_calls:
        made["calls"] = [{"name": call.name, "arguments": call.arguments} for call in node.message.tool_calls]
    if node.id in row.turns:
        made["turn"] = row.turns[node.id]
    made["loss"] = loss
    if said:
        made["said"] = list(map(_said, said))
    return made


def _said(one: Supervision) -> dict[str, Any]:
    kind = one.attributes.get("kind")
    return {
        **({"kind": kind} if kind else {}),
        "verdict": one.verdict,
        "source": one.source,
        "by": one.by,
        "at": one.at,
        "reason": one.reason,
        **{name: one.attributes[name] for name in ("why", "turn", "pattern") if one.attributes.get(name)},
    }


_encode = msgspec.json.Encoder().encode
