"""From records to episodes of verifiers: one trace for each trajectory, with the branches its rollout left beside.

    trajectory ─▶ its walk + the nodes of its slot off the walk ─▶ nodes, calls, rewards, errors ─▶ Trace ─▶ Episode

Traces that came from one episode stand in one episode again. What the format lacks is in `info.silva` of the trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from silva.tree.formats.branches import branches_of, ordered
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.extension import Packer
from silva.tree.formats.images import address
from silva.tree.formats.rows import as_list, as_object, kept_of
from silva.tree.formats.verifiers_read import BOUNDARIES, EXTENSION, KEPT, read_trace
from silva.tree.message import ImagePart, Json, Message, TextPart, Tool
from silva.tree.node import NO_USAGE, Author, Node
from silva.tree.outcome import Status
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory
from silva.tree.tree import tools as tools_of

_ERRORS = {boundary: name for name, boundary in reversed(BOUNDARIES.items())}
_FINISH = {"stop", "length", "tool_calls"}


def write_episodes(bundle: Bundle) -> Iterator[Json]:
    """The rows of a bundle's trajectories, and one more where something belongs to none of them."""
    branches = branches_of(bundle)
    taken = {node.id for nodes in branches.values() for node in nodes}
    kept_nodes = tuple(node for node in bundle.nodes if node.id not in taken)
    packer = Packer(msgspec.structs.replace(bundle, nodes=kept_nodes))
    tasks = {task.id: task for task in bundle.tasks}
    open_row: Json | None = None
    for trajectory, path in packer.walks:
        nodes = ordered(path, branches.get(trajectory.id, []))
        episode = _episode(trajectory, tasks.get(trajectory.task_id))
        trace = _trace(trajectory, path, nodes, episode, bundle.blobs)
        drafted = read_trace(episode, trace, packer.origin(trajectory), KEPT, 0)
        trace["info"] = {**as_object(trace.get("info")), EXTENSION: packer.pack(trajectory, nodes, drafted)}
        if open_row is not None and open_row["id"] == episode["id"] and kept_of(trajectory.attributes, KEPT):
            open_row["traces"].append(trace)
            continue
        if open_row is not None:
            yield open_row
        open_row = {**episode, "traces": [trace]}
    if open_row is not None:
        yield open_row
    if packer.leftover:
        yield {
            "id": bundle.run.id,
            "env": {"id": "silva"},
            "task": {"type": "silva", "data": {EXTENSION: packer.pack_rest()}},
            "ok": False,
            "traces": [],
        }


def _episode(trajectory: Trajectory, task: Task | None) -> Json:
    kept = as_object(kept_of(trajectory.attributes, KEPT).get("episode"))
    if kept:
        return kept
    data: Json = {"name": trajectory.task_id}
    if task is not None and task.instruction:
        data["prompt"] = task.instruction
    return {
        "id": trajectory.id,
        "env": {"id": trajectory.env},
        "task": {"type": "Task", "data": data, "key": trajectory.task_id},
        "group": {"id": trajectory.tree_id},
        "run": {"type": "eval", "id": trajectory.run_id},
        "ok": trajectory.outcome.status is not Status.FAILED,
        "is_timeout": False,
        "errors": [],
    }


def _trace(
    trajectory: Trajectory, path: Sequence[Node], nodes: Sequence[Node], episode: Json, blobs: dict[str, bytes]
) -> Json:
    kept = kept_of(trajectory.attributes, KEPT)
    places = {node.id: place for place, node in enumerate(nodes)}
    graph: Json = {
        "nodes": [_node(node, places, blobs) for node in nodes],
        "calls": [
            *as_list(kept.get("calls")),
            *(call for place, node in enumerate(nodes) for call in _call(node, place)),
        ],
    }
    own = as_object(kept.get("trace"))
    if own:
        return {**own, "task": own.get("task", episode.get("task")), **graph}
    outcome = trajectory.outcome
    said = {"score": outcome.score, "success": outcome.success, "safety": outcome.safety}
    metrics = {name: float(value) for name, value in {**outcome.metrics, **said}.items() if value is not None}
    trace: Json = {
        "version": 1,
        "id": trajectory.id,
        "verifiers": {"version": "silva"},
        "task": episode["task"],
        "agent": {
            "config": {"model": trajectory.model or None, "runtime": {"type": "subprocess"}},
            "name": trajectory.agent or "agent",
        },
        "tools": [_tool(tool) for tool in tools_of(path)],
        **graph,
        "rewards": {"reward": {"score": trajectory.reward}} if math.isfinite(trajectory.reward) else {},
        "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
        "is_completed": True,
        "ok": outcome.status is not Status.FAILED,
        "timing": {"start": trajectory.started, "agent": {"start": trajectory.started, "end": trajectory.finished}},
    }
    if outcome.failure is not None:
        boundary = outcome.failure.boundary
        message = f"{outcome.failure.code}: {outcome.failure.message}"
        trace["errors"] = [{"type": _ERRORS[boundary], "message": message}]
        trace["stop_condition"] = f"{_ERRORS[boundary].removesuffix('Error').lower()}_error"
    elif outcome.status is Status.TRUNCATED:
        trace["stop_condition"] = "max_turns"
    return trace


def _node(node: Node, places: dict[str, int], blobs: dict[str, bytes]) -> Json:
    kept = kept_of(node.attributes, KEPT)
    row: Json = {
        "message": _message(node.message, kept, blobs),
        "sampled": node.author is Author.POLICY,
        "timestamp": node.started,
        **{key: value for key, value in kept.items() if key not in ("message", "tool_calls", "call")},
    }
    if node.parent_id is not None:
        row["parent"] = places[node.parent_id]
    if node.tools:
        row["tools"] = [_tool(tool) for tool in node.tools]
    if node.tokens is not None:
        glue = len(node.tokens.ids) - node.tokens.sampled
        row["token_ids"] = list(node.tokens.ids)
        row["mask"] = kept.get("mask") or [*([False] * glue), *([True] * node.tokens.sampled)]
        logprobs = list(node.tokens.logprobs)
        row["logprobs"] = kept.get("logprobs") or (logprobs if all(map(math.isfinite, logprobs)) else [])
    return row


def _message(message: Message, kept: Json, blobs: dict[str, bytes]) -> Json:
    row: Json = {**as_object(kept.get("message")), "role": message.role, "content": _content(message, blobs)}
    if message.role == "assistant":
        if message.thinking:
            row["reasoning_content"] = message.thinking
        extras = as_list(kept.get("tool_calls"))
        calls = [
            {"id": call.id, "type": "function", "name": call.name, "arguments": call.arguments}
            | (as_object(extras[place]) if place < len(extras) else {})
            for place, call in enumerate(message.tool_calls)
        ]
        if calls:
            row["tool_calls"] = calls
    elif message.role == "tool":
        row["tool_call_id"] = message.tool_call_id or ""
        if message.name is not None:
            row["name"] = message.name
    return row


def _content(message: Message, blobs: dict[str, bytes]) -> str | list[Json] | None:
    if message.role == "assistant":  # the format gives assistants no images; the extension keeps the parts
        return message.text or None
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message.text
    parts: list[Json] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            parts.append({"type": "image_url", "image_url": {"url": address(part, blobs)}})
    return parts


def _call(node: Node, place: int) -> Iterator[Json]:
    kept: Any = kept_of(node.attributes, KEPT).get("call")
    if isinstance(kept, dict):
        yield {"node": place, **as_object(kept)}
        return
    usage = node.usage
    if node.author is not Author.POLICY or (usage == NO_USAGE and not node.model and not node.finish_reason):
        return
    counted: Json = {
        "prompt_tokens": max(usage.prompt_tokens - usage.cached_tokens, 0),
        "completion_tokens": usage.completion_tokens,
        "cached_input_tokens": usage.cached_tokens,
    }
    if usage.usd:
        counted["cost"] = usage.usd
    call: Json = {"node": place, "model": node.model or None, "usage": counted}
    if node.finish_reason in _FINISH:
        call["finish_reason"] = node.finish_reason
    if node.started:
        call["time"] = {"start": node.started, "end": node.started + usage.model_seconds}
    yield call


def _tool(tool: Tool) -> Json:
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
