"""Langfuse's spans: what its SDK sends over OTLP, in the words of the GenAI conventions.

    langfuse.observation.type, .input, .output, .model.name … ─▶ gen_ai.operation.name, gen_ai.input.messages …

Its input and output are any JSON: a list of chat messages, an object that holds one, a text. Spans of other tracers in
the same trace are left as they are, so that one reader reads them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from silva.tree.message import Json

OBSERVATION = "langfuse.observation."
_OPERATIONS = {"generation": "chat", "tool": "execute_tool", "agent": "invoke_agent"}
_SAYS = ("role", "content", "tool_calls", "parts")


def translated(document: Json) -> Json:
    """The OTLP document with Langfuse's attributes said in the GenAI conventions as well."""
    for pairs, error in _attributes(document):
        known = {key: _text(pair.get("value")) for pair in pairs if isinstance(key := pair.get("key"), str)}
        kind = known.get(f"{OBSERVATION}type")
        if not kind or "gen_ai.operation.name" in known:
            continue
        said: Json = {"gen_ai.operation.name": _OPERATIONS.get(kind, f"langfuse.{kind}")}
        given, made = known.get(f"{OBSERVATION}input"), known.get(f"{OBSERVATION}output")
        if kind == "generation":
            said["gen_ai.input.messages"] = _messages(given, "user")
            said["gen_ai.output.messages"] = _messages(made, "assistant")
            said["gen_ai.request.model"] = known.get(f"{OBSERVATION}model.name")
            usage = _object(known.get(f"{OBSERVATION}usage_details"))
            said["gen_ai.usage.input_tokens"] = usage.get("input", usage.get("prompt_tokens"))
            said["gen_ai.usage.output_tokens"] = usage.get("output", usage.get("completion_tokens"))
        elif kind == "tool":
            about = _object(known.get(f"{OBSERVATION}metadata"))
            own = about.get("tool_call_id") or _plain(known.get(f"{OBSERVATION}metadata.tool_call_id"))
            said["gen_ai.tool.call.id"] = own
            said["gen_ai.tool.call.arguments"] = given
            said["gen_ai.tool.call.result"] = made
        if known.get(f"{OBSERVATION}level") == "ERROR":
            error(known.get(f"{OBSERVATION}status_message") or "error")
        pairs += [{"key": key, "value": _value(value)} for key, value in said.items() if value is not None]
    return document


def _attributes(document: Json) -> Iterator[tuple[list[Json], Any]]:
    """The attributes of every span, and what says that it failed."""
    for resource in _rows(document.get("resourceSpans")):
        for scope in _rows(resource.get("scopeSpans")):
            for span in _rows(scope.get("spans")):
                pairs: Any = span.get("attributes")
                if isinstance(pairs, list) and all(isinstance(each, dict) for each in cast(list[Any], pairs)):

                    def failed(why: str, span: Json = span) -> None:
                        span["status"] = {"code": 2, "message": why}

                    yield cast(list[Json], pairs), failed


def _messages(text: str | None, role: str) -> str | None:
    """The chat messages that a value says, as JSON; None where it says nothing."""
    if text is None:
        return None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict):
        inner = cast(Json, value)
        choices = _rows(inner.get("choices"))
        value = inner.get("messages") or ([each.get("message") for each in choices] if choices else [inner])
    if not isinstance(value, list):
        return None if value is None or value == "" else json.dumps([{"role": role, "content": _words(value)}])
    found: list[Json] = []
    for each in cast(list[Any], value):
        if isinstance(each, dict) and any(key in each for key in _SAYS):
            found.append({"role": role, **cast(Json, each)})
        else:
            found.append({"role": role, "content": _words(each)})
    return json.dumps(found)


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _object(text: str | None) -> Json:
    try:
        value: Any = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast(Json, value) if isinstance(value, dict) else {}


def _plain(text: str | None) -> str | None:
    """A value of metadata: a JSON text since version 5 of the SDK, the bare text before."""
    try:
        value: Any = json.loads(text or "null")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str) else text


def _rows(value: Any) -> list[Json]:
    items = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(Json, each) for each in items if isinstance(each, dict)]


def _text(value: Any) -> str | None:
    found: Any = cast(Json, value).get("stringValue") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _value(value: Any) -> Json:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
