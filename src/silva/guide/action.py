"""The action that a person wrote, as text, to be taken in the agent's place.

{"name": …, "arguments": {…}}     a call; a list of such: several calls
{"text": …, "tool_calls": […]}    words and calls
anything else                     said as it stands
"""

from __future__ import annotations

import json
from typing import Any

from silva.errors import UsageError
from silva.tree import Message, TextPart, ToolCall


def action_of(text: str, name: str) -> Message:
    """The message an action's text means.

    Args:
        text: see the module.
        name: what its calls are named after, unless they have ids: unlike any other in the conversation.

    Raises:
        UsageError: it is empty, or an object that is neither a call nor a message.
    """
    try:
        value: Any = json.loads(text)
    except ValueError:
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(f"action {_short(text)}: begins as JSON and is none; {_FORMS}") from None
        value = text
    if not isinstance(value, dict | list):
        if not text.strip():
            raise UsageError(f"an action is empty: {_FORMS}")
        return Message(role="assistant", parts=(TextPart(text=text),))
    calls, words = value if isinstance(value, list) else [value], ""
    if isinstance(value, dict) and ("text" in value or "tool_calls" in value):
        calls, words = value.get("tool_calls") or [], value.get("text") or ""
        if set(value) - {"text", "tool_calls"} or not isinstance(words, str) or not isinstance(calls, list):
            raise UsageError(f"action {_short(text)}: {_FORMS}")
    if not calls and not words:
        raise UsageError(f"action {_short(text)}: holds no call and no words; {_FORMS}")
    made = tuple(_call(text, each, f"person_{name}_{place}") for place, each in enumerate(calls))
    return Message(role="assistant", parts=(TextPart(text=words),) if words else (), tool_calls=made)


_FORMS = 'give {"name": …, "arguments": {…}}, a list of them, or plain words'


def _call(text: str, value: Any, call_id: str) -> ToolCall:
    known = isinstance(value, dict) and not set(value) - {"id", "name", "arguments"}
    if not known or not isinstance(value.get("name"), str) or not value["name"].strip():
        raise UsageError(f"action {_short(text)}: {_FORMS}")
    given = value.get("arguments", {})
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise UsageError(f"action {_short(text)}: the arguments of {value['name'][:60]} are no object")
    raw = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolCall(id=str(value.get("id") or call_id), name=value["name"], arguments=raw)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text[:80] + ("…" if len(text) > 80 else "")
