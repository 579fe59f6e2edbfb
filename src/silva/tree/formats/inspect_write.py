"""From records to a log that Inspect AI opens: `inspect view`, `inspect log`, `read_eval_log`.

    trajectory ─▶ sample (messages, events, scores, usage)  ─┐
    all of them ─▶ results, stats ─▶ header, summaries ──────┴─▶ members of the archive

A group's places are epochs. What came from one log goes out under its header, and with its events, again. The extension
stands in `metadata.silva` of a sample, and of the log for what belongs to no trajectory.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from silva.tree.formats.atif_read import iso
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.chat import arguments
from silva.tree.formats.extension import Packer
from silva.tree.formats.images import address
from silva.tree.formats.inspect_events import events_of, output_of, usage_of
from silva.tree.formats.inspect_read import ATTACHMENT, EXTENSION, KEPT, read_sample
from silva.tree.formats.inspect_scores import outcome_of, results_of, scores_of
from silva.tree.formats.rows import as_list, as_object, kept_of
from silva.tree.message import ImagePart, Json, OtherPart, TextPart, ThinkingPart
from silva.tree.node import NO_USAGE, Author, Node, digest
from silva.tree.outcome import Status
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory

_MOST_EPOCH = 10_000
_BEGINNING = "1970-01-01T00:00:00+00:00"


def write_members(bundles: Iterable[Bundle]) -> Iterator[tuple[str, Any]]:
    """The members of the log, by name, in the order Inspect writes them."""
    given = list(bundles)
    packers = [Packer(bundle) for bundle in given]
    taken: set[tuple[str | int, int]] = set()
    written: list[tuple[Packer, Trajectory, Sequence[Node], Json]] = []
    for bundle, packer in zip(given, packers, strict=True):
        tasks = {task.id: task for task in bundle.tasks}
        for trajectory, path in packer.walks:
            sample = _sample(trajectory, path, tasks.get(trajectory.task_id), bundle.blobs, taken)
            written.append((packer, trajectory, path, sample))
    header = _header(given, [(trajectory, sample) for _, trajectory, _, sample in written])
    for packer, trajectory, path, sample in written:
        drafted = read_sample(sample, header, packer.origin(trajectory), KEPT, "samples")
        sample["metadata"] = {**sample["metadata"], EXTENSION: packer.pack(trajectory, path, drafted)}
    rest = [packer.pack_rest() for packer in packers if packer.leftover]
    if rest:
        spec = header["eval"]
        header = {**header, "eval": {**spec, "metadata": {**as_object(spec.get("metadata")), EXTENSION: rest}}}
    yield "_journal/start.json", {key: header[key] for key in ("version", "eval", "plan") if key in header}
    for *_, sample in written:
        yield f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample
    yield "summaries.json", [_summary(sample) for *_, sample in written]
    yield "header.json", header


def _sample(
    trajectory: Trajectory,
    path: Sequence[Node],
    task: Task | None,
    blobs: dict[str, bytes],
    taken: set[tuple[str | int, int]],
) -> Json:
    kept = as_object(kept_of(trajectory.attributes, KEPT).get("sample"))
    images = _Images(blobs, as_object(kept.get("attachments")))
    messages = [_message(node, images) for node in path]
    if kept:
        sample: Json = {**kept, "messages": messages}
        if outcome_of(kept) != trajectory.outcome:
            sample["scores"] = scores_of(trajectory.outcome)
        sample["attachments"] = images.attachments
        sample["metadata"] = as_object(kept.get("metadata"))
        sample["epoch"] = _epoch(sample["id"], int(sample["epoch"]), taken)
        return sample
    own = _printable(trajectory.task_id)
    first = next((place for place, node in enumerate(path) if node.author is Author.POLICY), len(path))
    asked = task.instruction if task is not None and task.instruction else ""
    last = next((place for place in reversed(range(len(path))) if path[place].author is Author.POLICY), None)
    begun = trajectory.started
    sample = {
        "id": own,
        "epoch": _epoch(own, trajectory.index + 1 if trajectory.index < _MOST_EPOCH else 1, taken),
        "input": asked or messages[:first] or "",
        "target": "",
        "messages": messages,
        "output": {"model": trajectory.model, "choices": [], "completion": ""}
        if last is None
        else output_of(path[last], messages[last]),
        "scores": scores_of(trajectory.outcome),
        "metadata": {},
        "store": {},
        "model_usage": {}
        if trajectory.usage == NO_USAGE
        else {trajectory.model or "unknown": usage_of(trajectory.usage)},
        "role_usage": {},
        "uuid": trajectory.id,
        "total_time": max(trajectory.finished - begun, 0.0),
        "attachments": images.attachments,
        "events_data": {"messages": messages, "calls": []},
        "turn_count": trajectory.turns,
    }
    if begun and iso(begun):
        sample["started_at"] = iso(begun)
    if trajectory.finished and iso(trajectory.finished):
        sample["completed_at"] = iso(trajectory.finished)
    failure = trajectory.outcome.failure
    if failure is not None or trajectory.outcome.status is Status.FAILED:
        text = "failed" if failure is None else f"{failure.code}: {failure.message}"
        sample["error"] = {"message": text, "traceback": "", "traceback_ansi": ""}
    elif trajectory.outcome.status is Status.TRUNCATED:
        sample["limit"] = {"type": "custom", "limit": trajectory.turns}
    sample["events"] = events_of(path, sample, begun)
    return sample


def _epoch(own: str | int, wanted: int, taken: set[tuple[str | int, int]]) -> int:
    epoch = max(wanted, 1)
    while (own, epoch) in taken:
        epoch += 1
    taken.add((own, epoch))
    return epoch


def _printable(text: str) -> str:
    """A member's name ends at a control character; the extension has the true id."""
    return "".join(letter if letter.isprintable() else "?" for letter in text) or "task"


class _Images:
    """Images as attachments where their bytes are at hand, else as paths beside the log."""

    def __init__(self, blobs: dict[str, bytes], attachments: Json) -> None:
        self.attachments: Json = dict(attachments)
        self._blobs = blobs
        self._held: dict[str, str] = {}
        for key, value in attachments.items():
            if isinstance(value, str) and value.startswith("data:"):
                try:
                    data = base64.b64decode(value.partition(",")[2], validate=True)
                except ValueError:
                    continue  # text that only begins like an image
                self._held[hashlib.sha256(data).hexdigest()] = key

    def address(self, image: ImagePart) -> str:
        """What a message says for the image."""
        if image.hash in self._held:
            return ATTACHMENT + self._held[image.hash]
        said = address(image, self._blobs)
        if not said.startswith("data:"):
            return said
        self.attachments[image.hash] = said
        self._held[image.hash] = image.hash
        return ATTACHMENT + image.hash


def _message(node: Node, images: _Images) -> Json:
    kept, message = kept_of(node.attributes, KEPT), node.message
    row: Json = {
        "id": node.id,
        **as_object(kept.get("message")),
        "role": message.role,
        "content": kept.get("content") or _content(node, images),
    }
    if message.role == "assistant":
        row.setdefault("source", "generate" if node.author is Author.POLICY else "input")
        extras = as_list(kept.get("tool_calls"))
        calls: list[Json] = []
        for place, call in enumerate(message.tool_calls):
            said = arguments(call)
            written: Json = {"id": call.id, "function": call.name, "arguments": said, "type": "function"}
            if set(said) == {"_raw"}:
                written["parse_error"] = "the arguments are not a JSON object"
            calls.append(written | (as_object(extras[place]) if place < len(extras) else {}))
        if calls:
            row["tool_calls"] = calls
        if node.model:
            row["model"] = node.model
    elif message.role == "tool":
        if message.tool_call_id is not None:
            row["tool_call_id"] = message.tool_call_id
        if message.name is not None:
            row["function"] = message.name
    elif kept.get("tool_call_id"):
        row["tool_call_id"] = kept["tool_call_id"]
    return row


def _content(node: Node, images: _Images) -> str | list[Json]:
    shown = node.message.parts
    if len(shown) <= 1 and all(isinstance(part, TextPart) for part in shown):
        return node.message.text
    parts: list[Json] = []
    for part in shown:
        if isinstance(part, TextPart):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ThinkingPart):
            thought: Json = {"type": "reasoning", "reasoning": part.text}
            parts.append({**thought, "signature": part.signature} if part.signature is not None else thought)
        elif isinstance(part, OtherPart):
            parts.append({"type": "text", "text": part.label})
        else:
            parts.append({"type": "image", "image": images.address(part)})
    return parts


def _header(given: Sequence[Bundle], written: Sequence[tuple[Trajectory, Json]]) -> Json:
    kept = [as_object(kept_of(trajectory.attributes, KEPT).get("header")) for trajectory, _ in written]
    if kept and kept[0] and all(header == kept[0] for header in kept):
        return kept[0]
    samples = [sample for _, sample in written]
    trajectories = [trajectory for trajectory, _ in written]
    envs = sorted({trajectory.env for trajectory in trajectories})
    models = sorted({trajectory.model for trajectory in trajectories if trajectory.model})
    runs = [bundle.run.id for bundle in given]
    begun = min((t.started for t in trajectories if t.started), default=0.0)
    ended = max((t.finished for t in trajectories if t.finished), default=0.0)
    own = digest("inspect", *runs, *(trajectory.id for trajectory in trajectories))[:22]
    usage: Json = {}
    for model in models:
        total = NO_USAGE
        for trajectory in trajectories:
            total = total + trajectory.usage if trajectory.model == model else total
        usage[model] = usage_of(total)
    ids = list(dict.fromkeys(sample["id"] for sample in samples))
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": own,
            "run_id": runs[0] if runs else own,
            "created": iso(begun) or _BEGINNING,
            "task": ", ".join(envs) or "silva",
            "task_id": own,
            "task_version": 0,
            "dataset": {"samples": len(ids), "sample_ids": ids, "shuffled": False},
            "model": ", ".join(models) or "unknown",
            "config": {"epochs": max((sample["epoch"] for sample in samples), default=1)},
            "packages": {},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": results_of(samples),
        "stats": {
            "started_at": iso(begun) or _BEGINNING,
            "completed_at": iso(ended) or _BEGINNING,
            "model_usage": usage,
            "role_usage": {},
        },
    }


_SUMMARY = (
    "id",
    "epoch",
    "target",
    "scores",
    "model_usage",
    "role_usage",
    "started_at",
    "completed_at",
    "total_time",
    "working_time",
    "uuid",
    "turn_count",
)


def _summary(sample: Json) -> Json:
    row: Json = {key: sample[key] for key in _SUMMARY if key in sample}
    asked: Any = sample.get("input", "")
    if not isinstance(asked, str):
        said = (as_object(message) for message in as_list(asked))
        asked = next((m["content"] for m in said if m.get("role") == "user" and isinstance(m.get("content"), str)), "")
    row |= {"input": asked, "metadata": {}, "completed": True, "message_count": len(as_list(sample.get("messages")))}
    if sample.get("error"):
        row["error"] = str(as_object(sample["error"]).get("message") or "")
    if sample.get("limit"):
        row["limit"] = str(as_object(sample["limit"]).get("type") or "")
    return row
