"""The events of a sample that Inspect's viewer shows: its beginning, model and tool calls, scores, an error, a limit.

walk + messages as written ─▶ events; the model's inputs are ranges of one pool of messages, not copies of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from silva.tree.formats.atif_read import iso
from silva.tree.formats.chat import arguments
from silva.tree.formats.rows import as_list, as_object
from silva.tree.message import Json, ToolCall
from silva.tree.node import NO_USAGE, Author, Node, Usage, digest
from silva.tree.tree import tools as tools_of

_STOPS = {"stop": "stop", "length": "max_tokens", "tool_calls": "tool_calls", "content_filter": "content_filter"}
_JSON_TYPES = {"string", "integer", "number", "boolean", "array", "object", "null"}


def events_of(path: Sequence[Node], sample: Json, begun: float) -> list[Json]:
    """The events of a sample that is written but for them. `begun` is when it began, in Unix seconds."""
    found: list[Json] = [_opening(sample)]
    calls: dict[str, ToolCall] = {}
    for place, node in enumerate(path):
        written = cast(Json, sample["messages"][place])
        if node.author is Author.POLICY and node.message.role == "assistant":
            found.append(_model(path[: place + 1], written, place))
            calls |= {call.id: call for call in node.message.tool_calls}
        elif node.message.role == "tool":
            found.append(_tool(node, written, calls.get(node.message.tool_call_id or "")))
    for scorer, score in as_object(sample.get("scores")).items():
        found.append({"event": "score", "score": score, "scorer": scorer, "target": sample["target"]})
    if sample.get("limit"):
        limit = as_object(sample["limit"])
        found.append({"event": "sample_limit", "type": limit["type"], "message": "cut short", "limit": limit["limit"]})
    if sample.get("error"):
        found.append({"event": "error", "error": sample["error"]})
    latest = begun
    for place, event in enumerate(found):
        latest = event.pop("at", 0.0) or latest
        event["uuid"] = digest("event", str(sample["uuid"]), str(place))[:22]
        event["timestamp"] = iso(latest) or "1970-01-01T00:00:00+00:00"
        event["working_start"] = max(latest - begun, 0.0)
    return found


def stop_reason(node: Node) -> str:
    """Why the model stopped, in Inspect's words."""
    return _STOPS.get(node.finish_reason, "unknown" if node.finish_reason else "stop")


def usage_of(usage: Usage) -> Json:
    """The usage with cached tokens counted apart, as Inspect has it."""
    said: Json = {
        "input_tokens": max(usage.prompt_tokens - usage.cached_tokens, 0),
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
    }
    return {**said, "total_cost": usage.usd} if usage.usd else said


def output_of(node: Node, written: Json) -> Json:
    """What the model gave, as Inspect logs it."""
    output: Json = {
        "model": node.model,
        "choices": [{"message": written, "stop_reason": stop_reason(node)}],
        "completion": node.message.text,
    }
    if node.usage != NO_USAGE:
        output["usage"] = usage_of(node.usage)
        output["time"] = node.usage.model_seconds
    return output


def _opening(sample: Json) -> Json:
    given: Json = {key: sample[key] for key in ("id", "input", "target")}
    state: Json = {"messages": [], "tools": [], "store": {}, "completed": False, "metadata": {}}
    return {"event": "sample_init", "sample": given, "state": state}


def _model(walk: Sequence[Node], written: Json, place: int) -> Json:
    node = walk[-1]
    return {
        "event": "model",
        "model": node.model,
        "input": [],
        "input_refs": [[0, place]] if place else None,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": _parameters(tool.parameters)}
            for tool in tools_of(walk)
        ],
        "tool_choice": "auto",
        "config": {},
        "output": output_of(node, written),
        "completed": iso(node.started + node.usage.model_seconds) if node.started else None,
        "working_time": node.usage.model_seconds,
        "at": node.started,
    }


def _tool(node: Node, written: Json, call: ToolCall | None) -> Json:
    return {
        "event": "tool",
        "type": "function",
        "id": node.message.tool_call_id or node.id,
        "function": node.message.name or (call.name if call else "unknown"),
        "arguments": arguments(call) if call else {},
        "result": node.message.text,
        "events": [],
        "message_id": written["id"],
        "at": node.started,
    }


def _parameters(schema: Json) -> Json:
    """The parameters as far as Inspect's own schema type knows them; it refuses a log with others."""
    known = _schema(schema)
    more: Any = schema.get("additionalProperties")
    return {
        "type": "object",
        "properties": known.get("properties", {}),
        "required": known.get("required", []),
        "additionalProperties": more if isinstance(more, bool) else False,
    }


def _schema(value: Any) -> Json:
    return dict(_known(as_object(value)))


def _known(schema: Json) -> Iterator[tuple[str, Any]]:
    kind: Any = schema.get("type")
    if kind in _JSON_TYPES if isinstance(kind, str) else _types(kind):
        yield "type", kind
    for key, check in _CHECKS.items():
        if key in schema and check(schema[key]):
            yield key, schema[key]
    if isinstance(schema.get("properties"), dict):
        yield "properties", {key: _schema(item) for key, item in as_object(schema["properties"]).items()}
    if isinstance(schema.get("items"), dict):
        yield "items", _schema(schema["items"])
    if isinstance(schema.get("anyOf"), list):
        yield "anyOf", [_schema(item) for item in as_list(schema["anyOf"])]


def _types(kind: Any) -> bool:
    kinds = as_list(kind)
    return bool(kinds) and all(isinstance(item, str) and item in _JSON_TYPES for item in kinds)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in as_list(value))


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "description": _is(str),
    "format": _is(str),
    "pattern": _is(str),
    "default": lambda value: True,
    "enum": _is(list),
    "required": _texts,
    "minLength": _is(int),
    "maxLength": _is(int),
    "minimum": _is(int, float),
    "maximum": _is(int, float),
}
