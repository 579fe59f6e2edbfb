"""From records to OpenEnv's training traces, or to its collected episodes where the exact tokens are not known.

    trajectory ─▶ every sampled turn has ids and logprobs? ─▶ yes: TrainingTrace      no: EpisodeRecord ─▶ one line

OpenEnv makes no training trace of a rollout without the engine's ids, and neither do we: nothing is made up. A turn
that a supervision masks has a `loss_mask` of zeros. The extension stands in the last turn's `metadata.silva`, or in
`extra.silva`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from silva.tree.exact import RESTART
from silva.tree.formats.branches import branches_of, ordered
from silva.tree.formats.bundle import Bundle, walk
from silva.tree.formats.chat import arguments, write_message, write_tool
from silva.tree.formats.extension import Packer
from silva.tree.formats.images import address
from silva.tree.formats.openenv_read import EXTENSION, KEPT, VERSION, read_episode, read_trace
from silva.tree.formats.rows import as_object, kept_of
from silva.tree.message import ImagePart, Json, Message, Part, ThinkingPart
from silva.tree.node import Author, Node
from silva.tree.outcome import Status
from silva.tree.supervision import masked_nodes
from silva.tree.trajectory import Trajectory
from silva.tree.tree import tools as tools_of


def write_rows(bundle: Bundle) -> Iterator[Json]:
    """The rows of a bundle's trajectories, and one more where something belongs to none of them."""
    branches = branches_of(bundle)
    taken = {node.id for nodes in branches.values() for node in nodes}
    rest = tuple(node for node in bundle.nodes if node.id not in taken)
    packer = Packer(msgspec.structs.replace(bundle, nodes=rest))
    masked = masked_nodes(bundle.supervisions)
    for trajectory, path in packer.walks:
        nodes = ordered(path, branches.get(trajectory.id, []))
        turns = _turns(nodes, masked, bundle.blobs)
        if turns:
            reward = trajectory.reward
            turns[-1]["metadata"] = {**turns[-1]["metadata"], "task_id": trajectory.task_id, "reward": reward}
            drafted = read_trace(turns, packer.origin(trajectory), KEPT, 0)
            turns[-1]["metadata"][EXTENSION] = packer.pack(trajectory, nodes, drafted)
            yield {"schema_version": VERSION, "turns": turns}
            continue
        row = _episode(trajectory, path, bundle.blobs)
        drafted = read_episode(row, packer.origin(trajectory), KEPT, 0)
        # An episode is straight: what branched off comes after the walk.
        walked = {node.id for node in path}
        along = [*path, *(node for node in nodes if node.id not in walked)]
        row["extra"] = {**as_object(row.get("extra")), EXTENSION: packer.pack(trajectory, along, drafted)}
        yield row
    if packer.leftover:
        yield {**_EMPTY, "episode_id": bundle.run.id, "extra": {EXTENSION: packer.pack_rest()}}


_EMPTY: Json = {
    "episode_id": "",
    "messages": [],
    "reward": 0.0,
    "done": True,
    "tool_trace": [],
    "metrics": {},
    "verify_metrics": {},
    "artifacts": {},
    "task": None,
    "extra": {},
}


def _turns(nodes: Sequence[Node], masked: frozenset[str], blobs: dict[str, bytes]) -> list[Json]:
    """The turns of the sampled nodes; none where one of them has no exact tokens."""
    known = {node.id: node for node in nodes}
    found: list[Json] = []
    for node in nodes:
        if node.author is not Author.POLICY:
            continue
        above = walk(known, node.parent_id)
        prompt = _prompt(above, node)
        tokens = node.tokens
        if prompt is None or tokens is None or node.message.role != "assistant" or not _usable(prompt, node):
            return []
        kept = kept_of(node.attributes, KEPT)
        flag = 0 if node.id in masked else 1
        mask = kept.get("loss_mask") or [flag] * tokens.sampled
        metadata: Json = {**as_object(kept.get("metadata"))}
        if node.model:
            metadata["model"] = node.model
        if node.policy_version:
            metadata["policy_version"] = node.policy_version
        pictured = _pictured(above)
        found.append(
            {
                "node_id": kept.get("node_id") or node.id,
                "prompt_token_ids": prompt,
                "completion_token_ids": list(tokens.ids[len(tokens.ids) - tokens.sampled :]),
                "per_token_logps": list(tokens.logprobs),
                "loss_mask": [*([0] * len(prompt)), *mask],
                "request": {
                    **as_object(kept.get("request")),
                    "messages": [_message(other, pictured, blobs) for other in above],
                    "tools": [write_tool(tool) for tool in tools_of((*above, node))] or None,
                },
                "response": {
                    **as_object(kept.get("response")),
                    "choices": [
                        {
                            **as_object(kept.get("choice")),
                            "message": _message(node, _pictured([node]), blobs),
                            "finish_reason": node.finish_reason or None,
                        }
                    ],
                },
                "metadata": metadata,
            }
        )
    return found


def _prompt(above: Sequence[Node], node: Node) -> list[int] | None:
    """The ids the model was given for this node, None where they are not all known."""
    ids: list[int] | None = []
    for other in (*above, node):
        said, tokens = other.attributes.get("tokens"), other.tokens
        if said == RESTART:
            ids = []
        if said == "completion" or (tokens is None and other.author is Author.POLICY):
            ids = None
        if ids is not None and tokens is not None:
            ids.extend(tokens.ids)
    if ids is None or node.tokens is None:
        return None
    return ids[: len(ids) - node.tokens.sampled]


def _usable(prompt: Sequence[int], node: Node) -> bool:
    """The rules by which OpenEnv itself refuses a turn."""
    tokens = node.tokens
    if tokens is None or not prompt or not tokens.sampled or len(tokens.logprobs) != tokens.sampled:
        return False
    return all(token >= 0 for token in (*prompt, *tokens.ids)) and all(
        math.isfinite(value) and value <= 0 for value in tokens.logprobs
    )


def _message(node: Node, pictured: bool, blobs: dict[str, bytes]) -> Json:
    """The message as it goes over the wire: arguments are the text the model wrote, images have an address."""
    row = _spoken(node, pictured)
    if pictured:
        row["content"] = [
            {"type": "image_url", "image_url": {"url": address(part, blobs)}} if isinstance(part, ImagePart) else said
            for part, said in _shown(node, row)
        ]
    if node.message.tool_calls:
        row["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in node.message.tool_calls
        ]
    return row


def _spoken(node: Node, pictured: bool) -> Json:
    return {**as_object(kept_of(node.attributes, KEPT).get("message")), **write_message(node.message, pictured)}


def _shown(node: Node, row: Json) -> Iterator[tuple[Part, Json]]:
    """The parts that a message shows, each with what was written for it."""
    yield from zip((p for p in node.message.parts if not isinstance(p, ThinkingPart)), row["content"], strict=True)


def _pictured(nodes: Sequence[Node]) -> bool:
    return any(isinstance(part, ImagePart) for node in nodes for part in node.message.parts)


def _episode(trajectory: Trajectory, path: Sequence[Node], blobs: dict[str, bytes]) -> Json:
    pictured = _pictured(path)
    messages = [_spoken(node, pictured) for node in path]
    for node, row in zip(path, messages, strict=True):
        for part, said in _shown(node, row) if pictured else ():
            if isinstance(part, ImagePart):
                said["path"] = address(part, blobs)
    kept = as_object(kept_of(trajectory.attributes, KEPT).get("episode"))
    if kept:
        return {**_EMPTY, **kept, "messages": messages}
    outcome = trajectory.outcome
    said = {"score": outcome.score, "success": outcome.success, "safety": outcome.safety}
    measured = {name: float(value) for name, value in {**outcome.metrics, **said}.items() if value is not None}
    return {
        **_EMPTY,
        "episode_id": trajectory.id,
        "messages": messages,
        "reward": trajectory.reward if math.isfinite(trajectory.reward) else 0.0,
        "done": outcome.status is Status.COMPLETED,
        "tool_trace": _tool_trace([node.message for node in path]),
        "metrics": {"turns": trajectory.turns},
        "verify_metrics": {name: value for name, value in measured.items() if math.isfinite(value)},
        "task": trajectory.task_id,
    }


def _tool_trace(messages: Sequence[Message]) -> list[Json]:
    answers: dict[str, str] = {m.tool_call_id: m.text for m in messages if m.role == "tool" and m.tool_call_id}
    trace: list[Json] = []
    for call in (call for message in messages for call in message.tool_calls):
        result: Json = {"data": answers.get(call.id), "done": False, "metadata": {}, "error": None}
        trace.append({"tool_name": call.name, "arguments": arguments(call), "result": result})
    return trace
