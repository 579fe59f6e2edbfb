"""A node: one turn, stored once, carrying only what it adds to its parent.

The id is derived, not drawn. A node that every rollout of a task shares (the prompt) hashes to the same id and is so
stored once; a node the policy sampled also hashes its `slot` (which rollout of the group, which attempt), so two
samples stay two branches even when their words agree. A resumed run therefore computes the ids it computed before.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from silva.tree.message import Json, Message, Record, Tool
from silva.tree.risk import Risk


class Author(StrEnum):
    """Who wrote the node."""

    POLICY = "policy"
    ENVIRONMENT = "environment"
    PERSON = "person"
    ATTACKER = "attacker"
    SUMMARISER = "summariser"
    VERIFIER = "verifier"
    MEMORY = "memory"
    """What earlier runs taught, such as a skill."""


class Tokens(Record, frozen=True, kw_only=True):
    """The token ids this node added, exactly as the model saw or sampled them.

    The last `sampled` ids were drawn from the policy and have one log-probability each (natural log, under the
    sampling policy) or none at all; ids before them are template glue. Concatenated from the root to a node they are
    what the model saw.
    """

    ids: tuple[int, ...]
    sampled: int = 0
    logprobs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.sampled <= len(self.ids):
            raise ValueError(f"tokens: {self.sampled} sampled of {len(self.ids)} ids")
        if self.logprobs and len(self.logprobs) != self.sampled:
            raise ValueError(f"tokens: {len(self.logprobs)} logprobs for {self.sampled} sampled ids")


class Usage(Record, frozen=True, kw_only=True):
    """What a turn cost: tokens billed (of the prompt's, `cached_tokens` were read from the provider's cache and
    `written_tokens` written to it), US dollars, and seconds spent waiting for each side."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    usd: float = 0.0
    model_seconds: float = 0.0
    env_seconds: float = 0.0
    silva_seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        if other is NO_USAGE or self is NO_USAGE:  # where sums begin
            return self if other is NO_USAGE else other
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            written_tokens=self.written_tokens + other.written_tokens,
            usd=self.usd + other.usd,
            model_seconds=self.model_seconds + other.model_seconds,
            env_seconds=self.env_seconds + other.env_seconds,
            silva_seconds=self.silva_seconds + other.silva_seconds,
        )


NO_USAGE = Usage()


class Node(Record, frozen=True, kw_only=True, tag_field="kind", tag="node"):
    """One turn of a tree.

    `tools` is set where the set of tools the agent may call changes (None: as before). `slot` names the rollout
    attempt that sampled this node or descends from one that did ("" while shared). `started` is Unix seconds.
    """

    id: str
    run_id: str
    tree_id: str
    parent_id: str | None
    depth: int
    author: Author
    message: Message
    slot: str = ""
    tools: tuple[Tool, ...] | None = None
    tokens: Tokens | None = None
    model: str = ""
    policy_version: str = ""
    finish_reason: str = ""
    reward: float | None = None
    usage: Usage = NO_USAGE
    risks: tuple[Risk, ...] = ()
    snapshot_id: str = ""
    started: float = 0.0
    attributes: Json = msgspec.field(default_factory=dict[str, Any])


def digest(*parts: str | bytes) -> str:
    """128-bit hex digest of the parts, length-prefixed so that no two lists of parts collide by concatenation."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    count = len(data)
    pack = _PACKS[count] if count < len(_PACKS) else _pack(count)
    return short_digest(b"".join((pack(*map(len, data)), *data)), 16)


def _pack(count: int) -> Callable[..., bytes]:
    return struct.Struct(f"<{count}Q").pack


_PACKS = tuple(map(_pack, range(8)))
"""What writes the lengths of so many parts: a turn takes three digests."""


_LOCKED = 2047
"""Hashing more bytes than these at once lets other threads in, and getting back may take them milliseconds."""


def short_digest(data: bytes, size: int) -> str:
    """BLAKE2b of `data` with `size` bytes, in hex; keeps the interpreter's lock meanwhile."""
    if len(data) <= _LOCKED:
        return hashlib.blake2b(data, digest_size=size).hexdigest()
    made = hashlib.blake2b(digest_size=size)
    view = memoryview(data)
    for start in range(0, len(data), _LOCKED):
        made.update(view[start : start + _LOCKED])
    return made.hexdigest()


_encode_content = msgspec.msgpack.Encoder(order="deterministic").encode


def node_id(
    tree_id: str, parent_id: str | None, author: Author, message: Message, tools: tuple[Tool, ...] | None, slot: str
) -> str:
    """The id a node with this place and content has, on any machine and in any resumed run."""
    return digest(tree_id, parent_id or "", author, slot, _encode_content((message, tools)))
