"""The shape of an object: which of its fields say what was asked, what was answered, and how that was judged.

{"messages": […]} · {"prompt", "chosen", "rejected"} · {"instruction", "input", "output"} · {"question", "answer"}
· {"text"} …  ─▶  Conversation: messages | rejected messages | label | the other fields
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from silva.curate.rows.row import Kind
from silva.tree import Json

ASKED = ("prompt", "instruction", "question", "query", "problem")
ANSWERED = ("completion", "response", "output", "answer", "reply", "solution")
TEXTS = ("text", "content", "document", "sentence")
LABELS = ("label", "labels", "class", "target")
_MORE = ("input", "context")


class Conversation(NamedTuple):
    """An object as a conversation: chat messages in the API's own form."""

    kind: Kind
    messages: list[Any]
    rejected: list[Any] | None
    label: Any
    data: Json


def conversation(row: Json) -> Conversation | str:
    """What an object of a table says, or why nothing of it can be read."""
    rest = dict(row)
    label = next((rest.pop(name) for name in LABELS if name in rest), None)
    if isinstance(rest.get("messages"), list):
        return Conversation(Kind.MESSAGES, rest.pop("messages"), None, label, rest)
    opening: list[Any] = []
    if isinstance(rest.get("system"), str) and rest["system"]:
        opening.append({"role": "system", "content": rest.pop("system")})
    asked = _take(rest, ASKED)
    if isinstance(asked, list):  # a prompt that is a conversation
        opening += cast(list[Any], asked)
    elif asked is not None:
        more = _take(rest, _MORE)
        opening.append({"role": "user", "content": f"{asked}\n\n{more}" if more else str(asked)})
    if "chosen" in rest and "rejected" in rest:
        chosen, rejected = rest.pop("chosen"), rest.pop("rejected")
        if isinstance(chosen, dict) and isinstance(rejected, dict):
            chosen, rejected = [chosen], [rejected]
        return Conversation(Kind.PREFERENCE, opening + _answer(chosen), opening + _answer(rejected), label, rest)
    if opening and (answered := _take(rest, ANSWERED)) is not None:
        return Conversation(Kind.MESSAGES, opening + _answer(answered), None, label, rest)
    if opening:
        return Conversation(Kind.MESSAGES, opening, None, label, rest)
    text = _take(rest, TEXTS)
    if isinstance(text, str) and text.strip():
        return Conversation(Kind.TEXT, [{"role": "user", "content": text}], None, label, rest)
    named = ", ".join(list(row)[:8])
    return f"has no text: no messages, no prompt with an answer and no text among its fields ({named or 'none'})"


def _take(row: Json, names: tuple[str, ...]) -> Any:
    """The first of these fields that says something, taken out of the object."""
    for name in names:
        if row.get(name) not in (None, "", []):
            return row.pop(name)
    return None


def _answer(value: Any) -> list[Any]:
    if isinstance(value, list):
        return cast(list[Any], value)
    return [{"role": "assistant", "content": value if isinstance(value, str) else str(value)}]
