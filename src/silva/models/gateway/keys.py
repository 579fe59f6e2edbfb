"""By what a message is found again.

what people and tools say, and what a client put into a model's mouth ─▶ exact: the message itself, to the byte
what the policy said ─▶ loose: what a client can be expected to keep of it (`content_key`)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import msgspec

from silva.models.gateway.dialects.content import content_key
from silva.tree import Message

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Key(NamedTuple):
    """`exact` is equal for equal messages alone: parts and their order, names, white space, numbers as they were
    written. `loose` is also equal for what a client makes of a reply; None where the message is no assistant's."""

    exact: bytes
    loose: Hashable | None


def message_key(message: Message) -> Key:
    """The key of a message, for the memory of this process."""
    return Key(_encode(message), content_key(message) if message.role == "assistant" else None)
