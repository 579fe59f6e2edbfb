"""From records to a trace of the GenAI semantic conventions.

walk ─▶ invoke_agent ─┬─ chat: input.messages = the walk so far, output.messages = the reply
                      ├─ execute_tool: the call's id, its arguments, what came back
                      └─ …
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, cast

from silva.tree.formats.images import reference
from silva.tree.formats.otel_read import EXTENSION, KEPT
from silva.tree.formats.spans import pairs
from silva.tree.message import ImagePart, Json, Message, TextPart, ThinkingPart, Tool, ToolCall
from silva.tree.node import Author, Node, digest
from silva.tree.outcome import Outcome, Status
from silva.tree.trajectory import Trajectory

_CLIENT, _INTERNAL = 3, 1
_PROVIDER = "gen_ai.provider.name"


def _provider(attributes: Json) -> Json:
    """Who answered, as the trace said that it came from; records name none, so else it is Silva."""
    given: Any = attributes.get(KEPT)
    kept = cast(Json, given) if isinstance(given, dict) else {}
    said: Any = kept.get(_PROVIDER)
    return {_PROVIDER: said if isinstance(said, str) and said else "silva"}


def _status(outcome: Outcome) -> Json:
    if outcome.failure is None:
        return {"code": 2, "message": "failed"} if outcome.status is Status.FAILED else {}
    return {"code": 2, "message": f"{outcome.failure.code}: {outcome.failure.message}"}


def trace_document(trajectory: Trajectory, path: Sequence[Node], extension: str | None = None) -> Json:
    """The trace of one trajectory as an OTLP document."""
    trace = digest("trace", trajectory.id)
    root = _span_id(trace, "")
    said: Json = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trajectory.agent or "silva",
        "gen_ai.conversation.id": trajectory.id,
        **next((_provider(node.attributes) for node in path if node.author is Author.POLICY), _provider({})),
    }
    if trajectory.model:
        said["gen_ai.request.model"] = trajectory.model
    # What follows the last reply is in no call's prompt.
    if path and path[-1].author is not Author.POLICY:
        said["gen_ai.input.messages"] = _dumped([message_value(node.message) for node in path])
    if extension is not None:
        said[EXTENSION] = extension
    name = f"invoke_agent {trajectory.agent or 'silva'}"
    spans = [_span(trace, root, "", name, _INTERNAL, trajectory.started, trajectory.finished, said)]
    spans[0]["status"] = _status(trajectory.outcome)
    tools: tuple[Tool, ...] = ()
    calls: dict[str, ToolCall] = {}
    for place, node in enumerate(path):
        tools = tools if node.tools is None else node.tools
        if node.author is Author.POLICY:
            attributes = _chat(trajectory, path[:place], node, tools)
            title = f"chat {node.model or trajectory.model}".strip()
            ended = node.started + node.usage.model_seconds
            spans.append(
                _span(trace, _span_id(trace, str(place)), root, title, _CLIENT, node.started, ended, attributes)
            )
            calls |= {call.id: call for call in node.message.tool_calls}
        elif node.message.role == "tool" and node.message.tool_call_id in calls:
            call = calls[node.message.tool_call_id]
            attributes = _tool(trajectory, call, node.message)
            ended = node.started + node.usage.env_seconds
            title = f"execute_tool {call.name}"
            spans.append(
                _span(trace, _span_id(trace, str(place)), root, title, _INTERNAL, node.started, ended, attributes)
            )
    return _document(spans)


def rest_document(run: str, extension: str) -> Json:
    """A document of what belongs to no trajectory."""
    trace = digest("trace", run, "rest")
    said: Json = {"gen_ai.agent.name": "silva", EXTENSION: extension}
    return _document([_span(trace, _span_id(trace, ""), "", "silva", _INTERNAL, 0.0, 0.0, said)])


def _document(spans: list[Json]) -> Json:
    resource = {"attributes": pairs({"service.name": "silva"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "silva"}, "spans": spans}]}]}


def _span(
    trace: str, own: str, parent: str, name: str, kind: int, started: float, ended: float, attributes: Json
) -> Json:
    return {
        "traceId": trace,
        "spanId": own,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": _nanoseconds(started),
        "endTimeUnixNano": _nanoseconds(max(started, ended)),
        "attributes": pairs(attributes),
        "status": {},
    }


def _chat(trajectory: Trajectory, before: Sequence[Node], node: Node, tools: tuple[Tool, ...]) -> Json:
    reason = node.finish_reason or ("tool_call" if node.message.tool_calls else "stop")
    usage = node.usage
    said: Json = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": trajectory.id,
        **_provider(node.attributes),
    }
    if node.model or trajectory.model:
        said["gen_ai.request.model"] = node.model or trajectory.model
    if node.finish_reason:
        said["gen_ai.response.finish_reasons"] = [node.finish_reason]
    counts = {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }
    said |= {key: count for key, count in counts.items() if count}
    if before:
        said["gen_ai.input.messages"] = _dumped([message_value(each.message) for each in before])
    said["gen_ai.output.messages"] = _dumped([{**message_value(node.message), "finish_reason": reason}])
    if tools:
        said["gen_ai.tool.definitions"] = _dumped([tool_value(tool) for tool in tools])
    return said


def _tool(trajectory: Trajectory, call: ToolCall, answer: Message) -> Json:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": trajectory.id,
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.call.arguments": call.arguments,
        "gen_ai.tool.call.result": answer.text,
    }


def tool_value(tool: Tool) -> Json:
    """A tool as the conventions write one."""
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}


def message_value(message: Message) -> Json:
    """A message as the conventions write one."""
    parts: list[Json] = []
    for part in message.parts:
        if isinstance(part, ThinkingPart):
            parts.append({"type": "reasoning", "content": part.text})
        elif isinstance(part, ImagePart):
            address = reference(part)
            parts.append({"type": "uri", "modality": "image", "mime_type": part.media_type, "uri": address})
        elif message.role != "tool":
            parts.append({"type": "text", "content": part.text})
    for call in message.tool_calls:
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call)})
    if message.role == "tool":
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        parts.append({"type": "tool_call_response", "id": message.tool_call_id, "response": "\n".join(texts)})
    named: Json = {} if message.name is None else {"name": message.name}
    return {"role": message.role, "parts": parts, **named}


def _arguments(call: ToolCall) -> Any:
    """The arguments as an object where writing it again gives the very same text, else the text."""
    try:
        value: Any = json.loads(call.arguments)
        return value if json.dumps(value, ensure_ascii=False, allow_nan=False) == call.arguments else call.arguments
    except (ValueError, RecursionError):
        return call.arguments


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _nanoseconds(seconds: float) -> str:
    return str(int(seconds * 1e9)) if math.isfinite(seconds) and 0 <= seconds < 9e9 else "0"


def _span_id(trace: str, place: str) -> str:
    return digest(trace, place)[:16]
