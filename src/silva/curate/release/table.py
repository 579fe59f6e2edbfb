"""The table of a release: columns that a reader understands, and the row itself for Silva.

`messages` has the form of chat APIs, with the same fields in every line, so that `datasets` finds one schema; images
are named by their hash (`images/HASH.png`). What a column cannot say stands in `silva_row`, which `rows.read` reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from silva.curate.rows import Row
from silva.curate.rows.row import EXACT
from silva.tree import ImagePart, Json, Message, Node
from silva.tree.message import ThinkingPart

_CALL = pa.struct({"id": pa.string(), "name": pa.string(), "arguments": pa.string()})
_MESSAGE = pa.struct(
    {
        "role": pa.string(),
        "content": pa.string(),
        "thinking": pa.string(),
        "name": pa.string(),
        "tool_call_id": pa.string(),
        "tool_calls": pa.list_(_CALL),
        "images": pa.list_(pa.string()),
        "author": pa.string(),
    }
)
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "kind": pa.string(),
        "source": pa.string(),
        "messages": pa.list_(_MESSAGE),
        "rejected": pa.list_(_MESSAGE),
        "tools": pa.string(),
        "label": pa.string(),
        "data": pa.string(),
        "env": pa.string(),
        "task_id": pa.string(),
        "model": pa.string(),
        "score": pa.float64(),
        "success": pa.bool_(),
        "turns": pa.int64(),
        "risks": pa.list_(pa.string()),
        EXACT: pa.string(),
    }
)
MEANING = {
    "id": "The row's name: of its trajectory, or of its file and line.",
    "kind": "trajectory, messages, preference or text.",
    "source": "The run, or the file and the line, that it comes from.",
    "messages": "The conversation, root first; of a preference it ends with what is preferred.",
    "rejected": "Of a preference the conversation that ends with what is not preferred.",
    "tools": "The tools that may be called, as JSON Schema (JSON text).",
    "label": "The source's own verdict (JSON text).",
    "data": "What else the source says (JSON text).",
    "env": "The environment it was played in.",
    "task_id": "The task.",
    "model": "The model that played it.",
    "score": "What the environment's checker gave, from 0 to 1.",
    "success": "Whether the task was done, where that was judged.",
    "turns": "Messages of the conversation.",
    "risks": "Risks that were seen in it, by kind.",
    EXACT: "The whole row with its nodes as Silva keeps them (JSON text).",
}


def batches(rows: Iterable[Row], size: int) -> Iterable[tuple[list[Row], pa.Table]]:
    """The rows as tables of at most `size` lines, each beside the rows it holds."""
    held: list[Row] = []
    for row in rows:
        held.append(row)
        if len(held) == size:
            yield held, table(held)
            held = []
    if held:
        yield held, table(held)


def table(rows: Sequence[Row]) -> pa.Table:
    """The rows as one table."""
    return pa.Table.from_pylist([_line(row) for row in rows], schema=SCHEMA)


def images_of(row: Row) -> dict[str, ImagePart]:
    """The images of a row, by their hash."""
    parts = (part for node in (*row.nodes, *row.rejected) for part in node.message.parts)
    return {part.hash: part for part in parts if isinstance(part, ImagePart)}


def image_path(image: ImagePart) -> str:
    """Where an image lies in the release."""
    return f"images/{image.hash}.{image.media_type.rpartition('/')[2]}"


def _line(row: Row) -> Json:
    played, outcome = row.trajectory, row.trajectory.outcome if row.trajectory else None
    tools = next((node.tools for node in reversed(row.nodes) if node.tools is not None), None)
    risks = {risk.kind for node in row.nodes for risk in node.risks}
    return {
        "id": row.id,
        "kind": str(row.kind),
        "source": row.source,
        "messages": [_message(node) for node in row.nodes],
        "rejected": [_message(node) for node in row.rejected],
        "tools": None if tools is None else msgspec.json.encode(tools).decode(),
        "label": _json(row.label),
        "data": _json(row.data or None),
        "env": played.env if played else None,
        "task_id": played.task_id if played else None,
        "model": (played.model or None) if played else None,
        "score": outcome.score if outcome else None,
        "success": outcome.success if outcome else None,
        "turns": len(row.nodes),
        "risks": sorted(risks),
        EXACT: msgspec.json.encode(row).decode(),
    }


def _message(node: Node) -> Json:
    message: Message = node.message
    return {
        "role": message.role,
        "content": message.text,
        "thinking": message.thinking if any(isinstance(part, ThinkingPart) for part in message.parts) else None,
        "name": message.name,
        "tool_call_id": message.tool_call_id,
        "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls],
        "images": [image_path(part) for part in message.parts if isinstance(part, ImagePart)],
        "author": str(node.author),
    }


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
