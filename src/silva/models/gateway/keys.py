"""By what a message is found again.

what people and tools say, and what a client put into a model's mouth ─▶ exact: the message itself, to the byte
what the policy said ─▶ loose: what a client can be expected to keep of it (`content_key`)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import msgspec

from silva.models.gateway.dialects.content import content_key
from silva.tree import Message, OtherPart

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Key(NamedTuple):
    """`exact` is equal for equal messages alone: parts and their order, names, white space, numbers as they were
    written. `loose` is also equal for what a client makes of a reply; None where the message is no assistant's."""

    exact: bytes
    loose: Hashable | None


def message_key(message: Message) -> Key:
    """The key of a message, for the memory of this process."""
    return Key(_encode(_bare(message)), content_key(message) if message.role == "assistant" else None)


def _bare(message: Message) -> Message:
    """The message without what is said beside its words: marks of a provider's cache move with every turn."""
    beside = message.extra or any(call.extra for call in message.tool_calls)
    if not beside and all(isinstance(part, OtherPart) or not part.extra for part in message.parts):
        return message
    bare = msgspec.structs.replace
    parts = tuple(part if isinstance(part, OtherPart) else bare(part, extra=None) for part in message.parts)
    calls = tuple(bare(call, extra=None) for call in message.tool_calls)
    return bare(message, parts=parts, tool_calls=calls, extra=None)
