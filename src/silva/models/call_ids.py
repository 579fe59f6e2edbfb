"""Ids of tool calls, which somebody else minted, as every API takes them: no two calls of a conversation share one.

the calls of a reply ─▶ distinct: one that the walk has already, or an API refuses, is given another ─▶ kept, told
a conversation       ─▶ told_apart: so is every call, and each result goes with the call it answers, by its place
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

from silva.models.model import Completion
from silva.tree import Message, ToolCall

_ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,40}").fullmatch
"""What both Anthropic (these characters) and OpenAI (this length) take."""

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

RENAMED = "call_ids"
"""The attribute of a completion that says, of the ids its calls were given, which they stand for."""


def short_id(text: str) -> str:
    """Nine letters and digits made from a text: the only form of a call's id that every family takes."""
    number = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    letters: list[str] = []
    for _ in range(9):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


def distinct(calls: Sequence[ToolCall], taken: set[str], place: int) -> tuple[ToolCall, ...]:
    """The calls of one message, those under other ids that cannot keep theirs.

    Args:
        calls: as they were made.
        taken: ids that earlier calls of the conversation have; those of these calls are added.
        place: of the message in the conversation. What an id becomes follows from what comes before it alone, so that
            a conversation which grows keeps its beginning.
    """
    made = [_free(call.id, taken, place) for call in calls]
    return tuple(
        call if call.id == name else msgspec.structs.replace(call, id=name)
        for call, name in zip(calls, made, strict=True)
    )


def renamed(completion: Completion, messages: Sequence[Message]) -> Completion:
    """A reply to the messages, its calls distinct from theirs; what they were called stands in its attributes."""
    said = completion.message
    if not said.tool_calls:
        return completion
    taken = {call.id for message in messages for call in message.tool_calls}
    calls = distinct(said.tool_calls, taken, len(messages))
    others = {new.id: old.id for new, old in zip(calls, said.tool_calls, strict=True) if new is not old}
    if not others:
        return completion
    message = msgspec.structs.replace(said, tool_calls=calls)
    return msgspec.structs.replace(completion, message=message, attributes={**completion.attributes, RENAMED: others})


def told_apart(messages: Sequence[Message]) -> list[Message]:
    """The messages with ids that no two calls share, and results under the id of what they answer: of calls that had
    one id the latest message's, in their order."""
    taken: set[str] = set()
    waiting: dict[str, list[str]] = {}
    found: list[Message] = []
    for place, message in enumerate(messages):
        if message.tool_calls:
            calls = distinct(message.tool_calls, taken, place)
            asked: dict[str, list[str]] = {}
            for given, call in zip(message.tool_calls, calls, strict=True):
                asked.setdefault(given.id, []).append(call.id)
            waiting |= asked
            message = msgspec.structs.replace(message, tool_calls=calls)
        elif message.role == "tool":
            given_id = message.tool_call_id or ""
            names = waiting.get(given_id) or waiting.setdefault(given_id, [_free(given_id, taken, place)])
            message = msgspec.structs.replace(message, tool_call_id=names.pop(0) if len(names) > 1 else names[0])
        found.append(message)
    return found


def _free(given: str, taken: set[str], place: int) -> str:
    name, tried = given, 0
    while name in taken or not _ACCEPTED(name):
        name = short_id(f"{place} {tried} {given}")
        tried += 1
    taken.add(name)
    return name
