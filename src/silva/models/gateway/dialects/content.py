"""The key of what a message says, by which a turn is found again when a client sends it back.

reply ─▶ client's SDK ─▶ the next request's history ─▶ decode ─▶ content_key ─▶ equal to the recorded turn's
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import msgspec

from silva.models.anthropic.marks import RAW
from silva.tree import ImagePart, Message, TextPart

_WRAPPERS = (RAW, "input")
_EXACT = 2**53

_decode = msgspec.json.Decoder().decode
_sorted = msgspec.json.Encoder(order="sorted").encode


def content_key(message: Message) -> Hashable:
    """A key, for the memory of this process, that is equal for messages a client cannot be expected to keep apart.

    What counts, and why the rest does not:

    - *role*; not `name`, which two of the three APIs cannot send back.
    - *text*: the text parts joined by newlines and stripped. Clients join parts, and strip the ends of what a model
      wrote (one API refuses trailing white space).
    - *tool calls*, in order: the name and the arguments. Arguments that parse are compared as JSON (sorted keys, no
      white space, 1.0 as 1, integers beyond 2**53 as floats), for clients parse and re-serialise them, some in
      JavaScript; others as raw text. The wrappers the dialects put around text that is not an object (`_raw`, a custom
      tool's `input`) are looked through. Not the call's id, which replies may have had to invent.
    - *tool_call_id* of a tool message: two equal results answer different calls.
    - *images*: their hashes, in order.
    - not *thinking*: clients drop, shorten or reorder it as they please.
    """
    texts: list[str] = []
    images: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ImagePart):
            images.append(part.hash)
    calls = [(call.name, _arguments(call.arguments)) for call in message.tool_calls]
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    return message.role, text.strip(), tuple(calls), message.tool_call_id, tuple(images)


def _arguments(text: str) -> bytes:
    while True:
        text = text.strip() or "{}"
        try:
            value = _decode(text)
            if isinstance(value, dict) and len(value) == 1:
                inner = next((value[name] for name in _WRAPPERS if name in value), None)
                if isinstance(inner, str):
                    text = inner
                    continue
            return b"json" + _sorted(_plain(value))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return b"text" + text.encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, int) and abs(value) > _EXACT:
        return float(value)
    return value
