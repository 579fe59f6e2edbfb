"""Tool calls as people read them: arguments as named fields, commands and code as code, the rest as JSON."""

from __future__ import annotations

import json
from typing import Any

from silva.tree import Message, ToolCall

MOST_TEXT = 200_000
"""Characters of one field that a page is given; what is cut is counted."""
_CODE = frozenset(
    {"command", "cmd", "code", "script", "source", "query", "sql", "patch", "diff", "python", "keys", "input"}
    | {"content", "contents", "file_text", "text", "old_str", "new_str", "old_string", "new_string", "old", "new"}
)


def calls(message: Message) -> list[dict[str, Any]]:
    """A message's calls, each with `id`, `name` and `fields`: `name`, `value`, `kind` (`code`, `text`, `json`).
    Arguments that are no JSON object are one field without a name, as they were said."""
    return [
        {"id": each.id, "name": each.name, "arguments": each.arguments[:MOST_TEXT], "fields": fields(each)}
        for each in message.tool_calls
    ]


def fields(call: ToolCall) -> list[dict[str, Any]]:
    """The arguments of a call."""
    try:
        given = json.loads(call.arguments) if call.arguments.strip() else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return [_field("", call.arguments, "code")]
    return [_of(str(name), value) for name, value in given.items()]


def _of(name: str, value: object) -> dict[str, Any]:
    if isinstance(value, str):
        code = name.lower() in _CODE or "\n" in value
        return _field(name, value, "code" if code else "text")
    return _field(
        name, json.dumps(value, ensure_ascii=False, indent=1 if isinstance(value, dict | list) else None), "json"
    )


def _field(name: str, value: str, kind: str) -> dict[str, Any]:
    return {"name": name, "value": value[:MOST_TEXT], "kind": kind, "cut": max(0, len(value) - MOST_TEXT)}
