"""From a log of Inspect AI to records: one trajectory for each sample and epoch.

    header ─▶ task, model ─┐
    samples/<id>_epoch_<n> ┴▶ messages (attachments put back), model events (usage, model, time), scores ─▶ Bundle

An epoch is a place in the group, a scorer's value a score, an error that halted the sample a failure. A failed tool
told the model its error: these are its words. Sub-agents have walks of their own (`inspect_agents`). The rest of
the sample and the header stay under `attributes["inspect"]`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.errors import FormatError
from silva.tree.formats.graph import Rollout, Vertex, grow_graph, straight
from silva.tree.formats.images import Loader, resolve
from silva.tree.formats.inspect_agents import tools_of, with_agents
from silva.tree.formats.inspect_scores import outcome_of
from silva.tree.formats.rows import as_list, as_object, filled, number, typed
from silva.tree.message import Json, Message, Part, Role, TextPart, ThinkingPart, ToolCall
from silva.tree.node import NO_USAGE, Author, Usage
from silva.tree.task import Task

KEPT = "inspect"
EXTENSION = "silva"
ATTACHMENT = "attachment://"

_KNOWN = {"role", "content", "tool_calls", "tool_call_id", "function", "name", "model"}


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: str
    arguments: Json
    parse_error: str | None = None


class _Message(msgspec.Struct, frozen=True):
    role: Role
    content: str | list[Json]
    id: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | list[str] | None = None
    function: str | None = None
    model: str | None = None
    source: str | None = None
    error: Json | None = None


class _Sample(msgspec.Struct, frozen=True):
    id: str | int
    epoch: int
    messages: list[Json] = []
    attachments: dict[str, str] = {}
    events: list[Json] = []
    events_data: Json | None = None
    metadata: Json = {}
    scores: dict[str, Json] | None = None
    model_usage: dict[str, Json] = {}
    uuid: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


class _Told(msgspec.Struct, frozen=True):
    """What a model event says of the message it gave."""

    model: str = ""
    usage: Usage = NO_USAGE
    started: float = 0.0
    stop: str = ""


def read_sample(sample: Json, header: Json, origin: Origin, name: str, at: str, load: Loader | None = None) -> Bundle:
    """The records of one sample as a stranger reads it: its extension left aside. `at` is its member in the file.

    Raises:
        FormatError: with the member and the field.
    """
    said = typed(sample, _Sample, name, 0, at)
    blobs: dict[str, bytes] = {}
    told = _told(said.events)
    spec = as_object(header.get("eval"))
    vertices: list[Vertex] = []
    for place, raw in enumerate(said.messages):
        field = f"{at}.messages[{place}]"
        value = cast(Json, attached(raw, said.attachments))
        vertices.append(_vertex(value, told, field, name, load, blobs))
    tools = next((tools_of(event) for event in said.events if event.get("event") == "model"), ())
    if vertices and tools:
        first = vertices[0]
        vertices[0] = msgspec.structs.replace(first, turn=msgspec.structs.replace(first.turn, tools=tools))

    def vertex(message: Json, field: str) -> Vertex:
        value = cast(Json, attached(message, said.attachments))
        return _vertex(value, told, f"{at}.{field}", name, load, blobs)

    ids = [str(message.get("id") or "") for message in said.messages]
    pool = as_list(said.events_data.get("messages")) if said.events_data else said.messages
    whole = with_agents(straight(vertices), ids, said.events, pool, KEPT, vertex)
    if origin.task is None:
        origin = Origin(run=origin.run, task=_task(sample, said, spec), index=max(said.epoch - 1, 0))
    outcome = outcome_of(sample)
    metadata = {key: value for key, value in said.metadata.items() if key != EXTENSION}
    rollout = Rollout(
        origin=origin,
        vertices=whole,
        leaf=len(vertices) - 1 if vertices else None,
        outcome=outcome,
        reward=outcome.score or 0.0,
        identity=said.uuid or "",
        agent=str(spec.get("solver") or ""),
        model=str(spec.get("model") or ""),
        usage=_total(said.model_usage) if said.model_usage else None,
        started=_seconds(said.started_at),
        finished=_seconds(said.completed_at),
        attributes={
            KEPT: {
                "header": header,
                "sample": {**{k: v for k, v in sample.items() if k != "messages"}, "metadata": metadata},
            }
        },
        blobs=blobs,
    )
    return grow_graph(rollout, name, 0)


def attached(value: Any, attachments: dict[str, str]) -> Any:
    """The value with every `attachment://` text put back in place."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(ATTACHMENT), value) if value.startswith(ATTACHMENT) else value
    if isinstance(value, list):
        return [attached(item, attachments) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: attached(item, attachments) for key, item in cast(Json, value).items()}
    return value


def _vertex(
    value: Json, told: dict[str, _Told], field: str, name: str, load: Loader | None, blobs: dict[str, bytes]
) -> Vertex:
    said = typed(value, _Message, name, 0, field)
    other = filled({key: item for key, item in value.items() if key not in _KNOWN})
    kept: Json = {"message": other} if other else {}
    parts: list[Part] = []
    if isinstance(said.content, str):
        parts = [TextPart(text=said.content)] if said.content else []
    else:
        for place, part in enumerate(said.content):
            parts.append(_part(part, f"{field}.content[{place}]", name, load, blobs))
        if _loses(said.content):
            kept["content"] = said.content
    problem: Any = (said.error or {}).get("message")
    if isinstance(problem, str) and problem:
        if parts and parts != [TextPart(text=problem)]:
            kept["content"] = said.content
        parts = [TextPart(text=problem)]
    calls = tuple(
        ToolCall(
            id=call.id,
            name=call.function,
            arguments=_raw(call.arguments, call.parse_error),
        )
        for call in said.tool_calls or ()
    )
    raw_calls = [
        filled({k: v for k, v in as_object(c).items() if k not in ("id", "function", "arguments")})
        for c in as_list(value.get("tool_calls"))
    ]
    if any(extra != {"type": "function"} for extra in raw_calls):
        kept["tool_calls"] = raw_calls
    if isinstance(said.tool_call_id, list):
        kept["tool_call_id"] = said.tool_call_id
    event = told.get(said.id or "", _Told())
    message = Message(
        role=said.role,
        parts=tuple(parts),
        tool_calls=calls,
        tool_call_id=said.tool_call_id if isinstance(said.tool_call_id, str) else None,
        name=said.function,
    )
    turn = Turn(
        message=message,
        model=(event.model or said.model or "") if said.role == "assistant" else "",
        usage=event.usage,
        started=event.started,
        attributes={KEPT: kept} if kept else {},
    )
    sampled = said.role == "assistant" and said.source != "input"
    author = Author.POLICY if sampled else Author.ENVIRONMENT
    return Vertex(turn=turn, author=author, finish_reason=_STOPS.get(event.stop, event.stop))


_STOPS = {"max_tokens": "length", "model_length": "length"}


def _raw(arguments: Json, parse_error: str | None) -> str:
    """The arguments as text; what the model wrote where that was no JSON and the log kept it."""
    raw: Any = arguments.get("_raw")
    if parse_error and isinstance(raw, str) and len(arguments) == 1:
        return raw
    return json.dumps(arguments, ensure_ascii=False)


_TOLD = {
    "text": {"type", "text"},
    "image": {"type", "image", "detail"},
    "reasoning": {"type", "reasoning", "signature", "redacted"},
}


def _loses(content: list[Json]) -> bool:
    """Whether parts say more than Silva's parts can."""
    return any(
        set(filled(part)) - _TOLD.get(str(part.get("type")), set())
        or part.get("redacted")
        or part.get("detail", "auto") != "auto"
        for part in content
    )


def _part(part: Json, field: str, name: str, load: Loader | None, blobs: dict[str, bytes]) -> Part:
    kind = part.get("type")
    text: Any = part.get(str(kind))
    if kind == "text" and isinstance(text, str):
        return TextPart(text=text)
    if kind == "reasoning" and isinstance(text, str):
        signature = part.get("signature")
        shown = part.get("summary") if part.get("redacted") else text
        words = shown if isinstance(shown, str) else ""
        return ThinkingPart(text=words, signature=signature if isinstance(signature, str) else None)
    if kind == "image" and isinstance(text, str):
        try:
            image, data = resolve(text, load)
        except ValueError as error:
            raise FormatError(name, 0, f"{field}.image", str(error)) from error
        if data is not None:
            blobs[image.hash] = data
        return image
    if kind in ("audio", "video", "document", "data", "tool_use"):
        # Silva has no part for it: a line of text stands there, the message keeps the original.
        label = part.get("filename") or part.get("name") or ""
        return TextPart(text=f"[{kind} {label}]" if label else f"[{kind}]")
    raise FormatError(name, 0, f"{field}.type", f"unknown kind of content {kind!r}, or its {kind!r} is no text")


def _told(events: list[Json]) -> dict[str, _Told]:
    """What the model events say, by the id of the message each gave."""
    found: dict[str, _Told] = {}
    for event in events:
        if event.get("event") != "model":
            continue
        output = as_object(event.get("output"))
        for choice in (as_object(item) for item in as_list(output.get("choices"))):
            own = as_object(choice.get("message")).get("id")
            if not isinstance(own, str):
                continue
            usage = _usage(as_object(output.get("usage")))
            seconds = number(event.get("working_time")) or number(output.get("time")) or 0.0
            found[own] = _Told(
                model=str(event.get("model") or ""),
                usage=msgspec.structs.replace(usage, model_seconds=seconds),
                started=_seconds(event.get("timestamp")),
                stop=str(choice.get("stop_reason") or ""),
            )
    return found


def _usage(said: Json) -> Usage:
    def count(key: str) -> int:
        return int(number(said.get(key)) or 0)

    cached = count("input_tokens_cache_read")
    # Theirs counts cached tokens apart, ours within the prompt.
    return Usage(
        prompt_tokens=count("input_tokens") + cached + count("input_tokens_cache_write"),
        completion_tokens=count("output_tokens"),
        cached_tokens=cached,
        usd=number(said.get("total_cost")) or 0.0,
    )


def _total(models: dict[str, Json]) -> Usage:
    total = NO_USAGE
    for said in models.values():
        total = total + _usage(said)
    return total


def _task(sample: Json, said: _Sample, spec: Json) -> Task:
    env = str(spec.get("task") or "inspect")
    asked = sample.get("input")
    words = (
        asked
        if isinstance(asked, str)
        else next(
            (
                str(item["content"])
                for item in (as_object(value) for value in as_list(asked))
                if item.get("role") == "user" and isinstance(item.get("content"), str)
            ),
            "",
        )
    )
    data = filled({"target": sample.get("target"), "choices": sample.get("choices")})
    metadata = {key: value for key, value in said.metadata.items() if key != EXTENSION}
    if metadata:
        data["metadata"] = metadata
    return Task(id=f"{env}/{said.id}", env=env, instruction=words, data=data)


def _seconds(timestamp: Any) -> float:
    if not isinstance(timestamp, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
