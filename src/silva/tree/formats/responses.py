"""Responses: the items of OpenAI's Responses API, gathered to messages.

    reasoning, message, function_call … ─▶ one message of the assistant          function_call_output ─▶ its answer

A reply is several items there and one turn here, in a call's output as in the input of the next one. An item of another
kind (a search on the provider's side) is a line of text in its place, and the original is kept beside the message.
"""

from __future__ import annotations

from typing import Any, cast

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.values import Row
from silva.tree.message import Json

_ANSWERS = ("function_call_output", "custom_tool_call_output")


def is_items(value: Any) -> bool:
    """Whether a value is a list of items: objects, each of a type or a role."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, dict) and {"type", "role"} & set(cast(Json, each)) for each in cast(list[Any], value))


def messages(reading: Reading, items: list[Row]) -> list[Said]:
    """The messages of the items, in order.

    Raises:
        FormatError: with line and field.
    """
    found: list[Said] = []
    reply: list[Any] = []
    first = items[0] if items else None
    for item in items:
        kind, role = item.text("type") or "message", item.text("role")
        words = kind == "message" and role != "assistant"
        if reply and first is not None and (words or kind in _ANSWERS):
            found += _reply(reading, first, reply)
            reply = []
        if words:
            found += reading.chat(item.inside("", {"role": role, "content": item.value.get("content")}))
        elif kind in _ANSWERS:
            block = {**item.value, "type": "function_call_output"}
            found += reading.said("user", item.inside("", {"content": [block]}), "content")
        else:
            first = first if reply else item
            reply += _blocks(item, kind)
    return [*found, *(_reply(reading, first, reply) if reply and first is not None else ())]


def _reply(reading: Reading, first: Row, blocks: list[Any]) -> list[Said]:
    return reading.said("assistant", first.inside("", {"content": blocks}), "content")


def _blocks(item: Row, kind: str) -> list[Any]:
    if kind == "custom_tool_call":
        return [{**item.value, "type": "function_call", "arguments": item.text("input")}]
    if kind != "message":
        return [item.value]
    said: Any = item.value.get("content")
    return cast(list[Any], said) if isinstance(said, list) else [said] if isinstance(said, str) and said else []
