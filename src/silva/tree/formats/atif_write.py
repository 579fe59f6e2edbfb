"""From records to an ATIF document.

    walk ─▶ steps: every message but a tool's opens one, a tool's answer joins the step before it ─▶ Document

Token ids go out as the format wants them: each step's whole prompt, so their size is quadratic in turns. Where the ids
along the walk are not all known, the prompt is left out rather than guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from silva.tree.formats.atif_document import (
    IMAGE_TYPES,
    VERSION,
    Agent,
    Content,
    ContentPart,
    Document,
    FinalMetrics,
    Metrics,
    Observation,
    Result,
    Source,
    Step,
    SubagentRef,
    ToolCall,
)
from silva.tree.formats.atif_read import EXTENSION, KEPT, iso, read_plain
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.chat import arguments, write_tool
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Packer
from silva.tree.formats.images import reference
from silva.tree.message import Json, Message, OtherPart, TextPart, ThinkingPart
from silva.tree.node import Author, Node
from silva.tree.trajectory import Trajectory
from silva.tree.tree import tools as tools_of


def write_documents(bundle: Bundle) -> Iterator[Document]:
    """One document for each trajectory that no other one of the bundle called; those called stand inside it."""
    packer = Packer(bundle)
    walks = {trajectory.id: (trajectory, path) for trajectory, path in packer.walks}
    called: dict[str, list[str]] = {}
    for trajectory, _ in packer.walks:
        parent = kept_of(trajectory.attributes).get("parent")
        if isinstance(parent, str) and parent in walks and parent != trajectory.id:
            called.setdefault(parent, []).append(trajectory.id)
    inner = {name for names in called.values() for name in names}
    done: set[str] = set()

    def written(name: str) -> Document:
        done.add(name)
        trajectory, path = walks[name]
        document = _document(bundle, trajectory, path)
        drafted = read_plain(document, packer.origin(trajectory))
        document.extra = {**(document.extra or {}), EXTENSION: packer.pack(trajectory, path, drafted)}
        document.subagent_trajectories = [written(sub) for sub in called.get(name, ()) if sub not in done] or None
        return document

    for name in walks:
        if name not in inner:
            yield written(name)
    for name in walks:
        if name not in done:  # callers in a circle: none is the first, so each that is left begins
            yield written(name)
    if packer.leftover:
        yield Document(
            schema_version=VERSION,
            session_id=bundle.run.id,
            agent=Agent(name="silva", version=bundle.run.lineage.code or "unknown"),
            steps=[Step(step_id=1, source="system", message="")],
            notes="No trajectory: this document carries what belongs to none, under extra.silva.",
            extra={EXTENSION: packer.pack_rest()},
        )


def line(document: Document) -> str:
    """The document as one line of JSON.

    Raises:
        FormatError: a number that JSON has no way to write.
    """
    try:
        return json.dumps(msgspec.to_builtins(document), ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise FormatError("atif", 0, "", f"{error}; write parquet, which keeps every number") from error


def kept_of(attributes: Json) -> Json:
    """What a foreign ATIF document said that has no field of its own."""
    kept: Any = attributes.get(KEPT)
    return cast(Json, kept) if isinstance(kept, dict) else {}


def _document(bundle: Bundle, trajectory: Trajectory, path: Sequence[Node]) -> Document:
    kept = kept_of(trajectory.attributes)
    steps = _steps(path, trajectory)
    usage, outcome = trajectory.usage, trajectory.outcome
    said: Json = {"status": str(outcome.status)}
    for name in ("score", "success", "safety"):
        value: Any = getattr(outcome, name)
        if value is not None and (not isinstance(value, float) or math.isfinite(value)):
            said[name] = value
    foreign = bool(kept)
    return Document(
        schema_version=VERSION,
        session_id=_text(kept, "session_id") or bundle.run.id,
        trajectory_id=_text(kept, "trajectory_id") or trajectory.id,
        agent=Agent(
            name=trajectory.agent or "silva",
            version=_text(kept, "agent_version") or bundle.run.lineage.code or "unknown",
            model_name=trajectory.model or None,
            tool_definitions=[write_tool(tool) for tool in tools_of(path)] or None,
            extra=_object(kept, "agent_extra"),
        ),
        steps=steps or [Step(step_id=1, source="system", message="")],
        notes=_text(kept, "notes"),
        final_metrics=FinalMetrics(
            total_prompt_tokens=usage.prompt_tokens or None,
            total_completion_tokens=usage.completion_tokens or None,
            total_cached_tokens=usage.cached_tokens or None,
            total_cost_usd=usage.usd or None,
            total_steps=kept.get("total_steps", len(steps)),
            extra=_object(kept, "metrics_extra") if foreign else said,
        ),
        continued_trajectory_ref=_text(kept, "continued_trajectory_ref"),
        extra=_object(kept, "extra"),
    )


def _steps(path: Sequence[Node], trajectory: Trajectory) -> list[Step]:
    steps: list[Step] = []
    seen = _Seen()
    for node in path:
        kept, message = kept_of(node.attributes), node.message
        metrics = seen.metrics(node, kept)
        if message.role == "tool" or kept.get("observation"):
            if not steps:
                steps.append(Step(step_id=1, source="system", message=""))
            _join(steps[-1], node, kept)
            continue
        agent = message.role == "assistant"
        steps.append(
            Step(
                step_id=len(steps) + 1,
                source="agent" if agent else "system" if message.role == "system" else "user",
                message=_content(message, kept),
                timestamp=_text(kept, "timestamp") or iso(node.started),
                model_name=node.model if agent and node.model and node.model != trajectory.model else None,
                reasoning_effort=kept.get("reasoning_effort") if agent else None,
                reasoning_content=(message.thinking or None) if agent and kept.get("llm_call_count") != 0 else None,
                tool_calls=_calls(message, kept) if agent else None,
                metrics=metrics if agent and kept.get("llm_call_count") != 0 else None,
                is_copied_context=kept.get("is_copied_context"),
                llm_call_count=kept.get("llm_call_count"),
                extra=_object(kept, "extra"),
            )
        )
    return steps


def _join(step: Step, node: Node, kept: Json) -> None:
    calls = {call.tool_call_id for call in step.tool_calls or ()}
    asked = node.message.tool_call_id
    refs: Any = kept.get("subagent_trajectory_ref")
    result = Result(
        source_call_id=asked if asked in calls else None,
        content=_content(node.message, kept) or None,
        subagent_trajectory_ref=None if refs is None else msgspec.convert(refs, list[SubagentRef]),
        extra=_object(kept, "extra"),
    )
    if step.observation is None:
        step.observation = Observation(results=[])
    step.observation.results.append(result)


def _calls(message: Message, kept: Json) -> list[ToolCall] | None:
    given: Any = kept.get("call_extras")
    extras: list[Any] = cast(list[Any], given) if isinstance(given, list) else []
    return [
        ToolCall(
            tool_call_id=call.id,
            function_name=call.name,
            arguments=arguments(call),
            extra=extras[place] if place < len(extras) else None,
        )
        for place, call in enumerate(message.tool_calls)
    ] or None


def _content(message: Message, kept: Json) -> Content:
    original: Any = kept.get("content")
    if original is not None:
        return msgspec.convert(original, list[ContentPart])
    shown = [part for part in message.parts if not isinstance(part, ThinkingPart)]
    if not shown:
        return ""
    if len(shown) == 1 and isinstance(shown[0], TextPart):
        return shown[0].text
    parts: list[ContentPart] = []
    for part in shown:
        if isinstance(part, TextPart):
            parts.append(ContentPart(type="text", text=part.text))
        elif isinstance(part, OtherPart):
            parts.append(ContentPart(type="text", text=part.label))
        elif part.media_type in IMAGE_TYPES:
            source = Source(media_type=part.media_type, path=reference(part))
            parts.append(ContentPart(type="image", source=source))
        else:  # the format knows four kinds of image; the extension keeps the part
            parts.append(ContentPart(type="text", text=f"[image {reference(part)}]"))
    return parts


class _Seen:
    """The ids along the walk, as far as they are all known."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._known = True

    def metrics(self, node: Node, kept: Json) -> Metrics | None:
        """The step's metrics; the node's ids now count as seen."""
        usage, tokens = node.usage, node.tokens
        found = Metrics(
            prompt_tokens=usage.prompt_tokens or None,
            completion_tokens=usage.completion_tokens or None,
            cached_tokens=usage.cached_tokens or None,
            cost_usd=usage.usd or None,
            extra=_object(kept, "metrics_extra"),
            prompt_token_ids=kept.get("prompt_token_ids"),
            logprobs=kept.get("logprobs"),
        )
        said = node.attributes.get("tokens")
        if said == "restart":
            self._ids, self._known = [], True
        if said == "completion" or (tokens is None and node.author is Author.POLICY):
            self._known = False
        if tokens is not None:
            glue = len(tokens.ids) - tokens.sampled
            if self._known and node.author is Author.POLICY:
                found.prompt_token_ids = [*self._ids, *tokens.ids[:glue]]
            if node.author is Author.POLICY:
                found.completion_token_ids = list(tokens.ids[glue:])
            if tokens.logprobs and all(math.isfinite(value) for value in tokens.logprobs):
                found.logprobs = list(tokens.logprobs)
            self._ids += tokens.ids
        return None if found == Metrics() else found


def _text(kept: Json, key: str) -> str | None:
    value: Any = kept.get(key)
    return value if isinstance(value, str) else None


def _object(kept: Json, key: str) -> Json | None:
    value: Any = kept.get(key)
    return cast(Json, value) if isinstance(value, dict) else None
