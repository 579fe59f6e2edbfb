"""What a language model is to the rest of Silva: one call that completes a conversation, one that streams it.

    Request (messages, tools, sampling, deadline) ─▶ Model.complete ─▶ Completion (message, tokens, usage, timing)

Every backend (an HTTP endpoint, the scripted server, the bundled local model) stands behind this protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import msgspec

from silva.tree import Json, Message, Record, Tokens, Tool, ToolCall, Usage


class Sampling(Record, frozen=True, kw_only=True):
    """How to sample. None leaves the choice to the server. `max_tokens` bounds one reply."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False
    tool_choice: str | None = None
    extra: Json = msgspec.field(default_factory=dict[str, Any])

    def named(self, names: Mapping[str, str]) -> Json:
        """What is said, by the names that an API has for it."""
        found: Json = {}
        for ours, theirs in names.items():
            value = getattr(self, ours)
            if value is not None and value is not False and value != ():
                found[theirs] = value
        return found


class Request(Record, frozen=True, kw_only=True):
    """One completion to make. `images` maps content hash to bytes for the image parts; `deadline` is in seconds from
    now, over all retries. `session` groups the calls of one trajectory (for affinity and for scripted replies).
    `dialect` names the API whose words the extras of its messages and tools are ("" for that of the model asked: they
    are of its own earlier replies), `headers` go with it where the model is asked by that API."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    sampling: Sampling = Sampling()
    deadline: float = 120.0
    session: str = ""
    images: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    dialect: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Completion(Record, frozen=True, kw_only=True):
    """One reply. `tokens` are the sampled ids and logprobs where the backend gives them; `logprobs` the
    log-probabilities even where it gives no ids; `seconds` is wall time of the attempt that succeeded, `attempts` how
    many were made. `attributes` go to the node: what else is known of how the reply was made. `extra` is what the
    server said around the message and nobody here reads, nested as in its API (see `silva.models.carried`), which
    `dialect` names."""

    message: Message
    finish_reason: str = "stop"
    tokens: Tokens | None = None
    prompt_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    policy_version: str = ""
    seconds: float = 0.0
    attempts: int = 1
    attributes: Json = msgspec.field(default_factory=dict[str, Any])
    extra: Json | None = None
    dialect: str = ""


class Delta(Record, frozen=True, kw_only=True):
    """One piece of a streamed reply; the last carries the whole `completion`. `extra` is what this piece said beside
    its words, nested as in its API."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    completion: Completion | None = None
    extra: Json | None = None
    dialect: str = ""


class Model(Protocol):
    """A language model.

    Failures raise `ModelError` (see `silva.models.errors`), never a bare HTTP exception.
    """

    name: str

    async def complete(self, request: Request) -> Completion:
        """Complete the conversation."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Complete it piece by piece."""
        ...

    async def close(self) -> None:
        """Release connections and any process started for this model."""
        ...
