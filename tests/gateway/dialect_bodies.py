"""Bodies of the three APIs, written short: `chat(n=2)` is a valid body with one field more or other."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from silva.models.gateway.dialects import Anthropic, Asked, Chat, Responses
from silva.tree import ImagePart, Message

PIXEL = b"\x89PNG\r\n\x1a\n\0"
DATA = base64.b64encode(PIXEL).decode()
PICTURE = ImagePart(hash=hashlib.sha256(PIXEL).hexdigest())
URL = f"data:image/png;base64,{DATA}"
HELLO = [{"role": "user", "content": "hello"}]


def chat(**fields: Any) -> Asked:
    return Chat().decode(json.dumps({"model": "m", "messages": HELLO} | fields).encode())


def responses(**fields: Any) -> Asked:
    return Responses().decode(json.dumps({"model": "m", "input": "hello"} | fields).encode())


def anthropic(**fields: Any) -> Asked:
    return Anthropic().decode(json.dumps({"model": "m", "max_tokens": 9, "messages": HELLO} | fields).encode())


def said(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return chat(messages=list(messages)).messages


def items(*written: dict[str, Any]) -> tuple[Message, ...]:
    return responses(input=list(written)).messages


def turns(*written: dict[str, Any]) -> tuple[Message, ...]:
    return anthropic(messages=list(written)).messages
