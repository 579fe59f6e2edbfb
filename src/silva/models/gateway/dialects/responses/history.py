"""Messages as items of the Responses API: a conversation that is told to a provider, and a provider's reply on its way
to a client. The other direction of `items`.

    Message ─▶ parts and calls in the order of their items ─▶ each item: its words, and what its mark says beyond them

`ours`: what stands beside the words was said in this API; of another's it is left out, its thinking among it.
"""

from __future__ import annotations

from typing import Any

from silva.models.anthropic.marks import parsed_object
from silva.models.body import DEVELOPER
from silva.models.carried import merged
from silva.models.gateway.dialects.responses.marks import AFTER, ITEM, PART, mark_of
from silva.models.wire import bytes_of, data_url
from silva.tree import ImagePart, Json, Message, OtherPart, Part, TextPart, ThinkingPart, ToolCall


def said(message: Message, ours: bool, stored: bool = True) -> list[Json]:
    """The items of an assistant's message; `stored`: the provider may have kept what it thought, and knows it by its
    id."""
    items: list[Json] = []
    calls = list(message.tool_calls)
    words: list[Json] | None = None
    for place, part in enumerate(message.parts):
        while calls and ours and mark_of(calls[0].extra).get(AFTER, place + 1) <= place:
            items.append(called(calls.pop(0), ours))
            words = None
        if isinstance(part, TextPart) or _is_content(part):
            mark = mark_of(part.extra) if ours and isinstance(part, TextPart) else {}
            if words is None or mark:
                words = []
                items.append({"type": "message", "role": "assistant", "content": words, **mark})
            if isinstance(part, OtherPart):
                words += [part.written] if ours else []
            elif isinstance(part, TextPart) and part.text:
                words.append(text_of(part, ours))
            continue
        words = None
        if isinstance(part, ThinkingPart):
            items += thought(part, stored) if ours else ()
        elif isinstance(part, OtherPart) and ours:
            items.append(part.written)
    return [*items, *(called(call, ours) for call in calls)]


def _is_content(part: Part) -> bool:
    return isinstance(part, OtherPart) and str(part.written.get("type")).startswith("output_")


def text_of(part: TextPart, ours: bool) -> Json:
    """The content part of an assistant's text."""
    extra = part.extra if ours else None
    if extra and extra.get("type") == "refusal":
        return merged({"type": "refusal", "refusal": part.text}, _rest(extra))
    written: Json = {"type": "output_text", "text": part.text, "annotations": []}
    return merged(written | mark_of(extra, PART), _rest(extra))


def thought(part: ThinkingPart, stored: bool) -> list[Json]:
    """The reasoning item of a thought. A provider refuses one that it can neither read nor find: without an id or its
    proof, or without text where nothing is stored."""
    mark = mark_of(part.extra)
    readable = mark.get("content") or (part.text and not mark.get("summary"))
    if not part.signature and not (mark.get("id") and (stored or readable)):
        return []
    item: Json = {"type": "reasoning", "summary": [], **mark}
    if part.text and not mark.get("summary") and not mark.get("content"):
        item["content"] = [{"type": "reasoning_text", "text": part.text}]
    if part.signature:
        item["encrypted_content"] = part.signature
    return [merged(item, _rest(part.extra))]


def called(call: ToolCall, ours: bool) -> Json:
    """The item of a call."""
    extra = call.extra if ours else None
    mark = {name: value for name, value in mark_of(extra).items() if name != AFTER}
    kind = mark.pop("type", "function_call")
    given = parsed_object(call.arguments)
    if kind == "custom_tool_call" and given is not None and isinstance(given.get("input"), str):
        written: Json = {"type": kind, "call_id": call.id, "name": call.name, "input": given["input"]}
    elif kind == "local_shell_call" and given is not None:
        written = {"type": kind, "call_id": call.id, "action": {"type": "exec", "env": {}, **given}}
    else:
        written = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
    return merged(written | mark, _rest(extra))


def client_item(message: Message, images: dict[str, bytes], ours: bool) -> Json:
    """The item of what a client says: a message, or the result of a call.

    Raises:
        WireError: an image whose bytes are not there.
    """
    extra = message.extra if ours else None
    mark = mark_of(extra)
    only = message.parts[0] if len(message.parts) == 1 else None
    if isinstance(only, OtherPart) and not _is_input(only):
        return only.written if ours else {"type": "message", "role": "user", "content": only.label}
    if isinstance(only, TextPart) and not (ours and only.extra):
        content: str | list[Json] = only.text
    else:
        content = [written for part in message.parts if (written := _shown(part, images, ours)) is not None]
    if message.role == "tool":
        written = {"type": "function_call_output", "call_id": message.tool_call_id, "output": content or ""}
    else:
        role = DEVELOPER if message.role == "system" and message.name == DEVELOPER else message.role
        written = {"type": "message", "role": role, "content": content}
    return merged(written | mark, _rest(extra))


def _is_input(part: OtherPart) -> bool:
    return str(part.written.get("type")).startswith("input_")


def _shown(part: Part, images: dict[str, bytes], ours: bool) -> Json | None:
    if isinstance(part, OtherPart):
        return part.written if ours else None
    extra = _rest(part.extra) if ours else None
    if isinstance(part, TextPart):
        return merged({"type": "input_text", "text": part.text}, extra)
    if not isinstance(part, ImagePart):
        return None
    address = data_url(bytes_of(part, images), part.media_type)
    return merged({"type": "input_image", "image_url": address, "detail": part.detail or "auto"}, extra)


def _rest(extra: Json | None) -> dict[str, Any]:
    """What an extra says beside its marks."""
    return {name: value for name, value in (extra or {}).items() if name not in (ITEM, PART)}
